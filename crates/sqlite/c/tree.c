/* Trees, and the values that SQLite has in a file's header. SQLite names a tree by the number of its root page. */

SQLITE_PRIVATE int sqlite3BtreeCreateTable(Btree *p, Pgno *pi, int f) {
  int rc;
  if( p->pTp==0 ) return stockBtreeCreateTable(p, pi, f);
  TP_CALL(rc, p, tpsql_create(TPH(p)->pConn, pi));
  return rc;
}
SQLITE_PRIVATE int sqlite3BtreeDropTable(Btree *p, int i, int *pMoved) {
  int rc;
  if( p->pTp==0 ) return stockBtreeDropTable(p, i, pMoved);
  *pMoved = 0;
  TP_CALL(rc, p, tpsql_clear(TPH(p)->pConn, i, 1, 0));
  return rc;
}
SQLITE_PRIVATE int sqlite3BtreeClearTable(Btree *p, int i, i64 *pn) {
  int rc;
  if( p->pTp==0 ) return stockBtreeClearTable(p, i, pn);
  TP_CALL(rc, p, tpsql_clear(TPH(p)->pConn, i, 0, pn));
  return rc;
}
static int sqlite3TpVacuum(Btree *p){
  int rc;
  if( TPH(p)->isReadOnly ) return SQLITE_READONLY;
  tpSettings(p);
  TP_CALL(rc, p, tpsql_compact(TPH(p)->pConn));
  return rc;
}
/* This call cannot fail, because the values are read when the transaction begins. */
SQLITE_PRIVATE void sqlite3BtreeGetMeta(Btree *p, int i, u32 *pv) {
  if( p->pTp==0 ){ stockBtreeGetMeta(p, i, pv); return; }
  *pv = i==BTREE_DATA_VERSION ? tpsql_version(TPH(p)->pConn) : tpsql_meta(TPH(p)->pConn, i);
}
SQLITE_PRIVATE int sqlite3BtreeUpdateMeta(Btree *p, int i, u32 v) {
  int rc;
  if( p->pTp==0 ) return stockBtreeUpdateMeta(p, i, v);
  TP_CALL(rc, p, tpsql_meta_put(TPH(p)->pConn, i, v));
  return rc;
}
/* This call only counts the entries of each tree. SQLite's own part of the check compares the counts of tables and
** indices, and looks up the index entries of each row. */
SQLITE_PRIVATE int sqlite3BtreeIntegrityCheck(sqlite3 *db, Btree *p, Pgno *aRoot, Mem *aCnt, int nRoot, int mx, int *pnErr, char **pz) {
  int i, rc = SQLITE_OK;
  if( p->pTp==0 ) return stockBtreeIntegrityCheck(db, p, aRoot, aCnt, nRoot, mx, pnErr, pz);
  *pnErr = 0;
  *pz = 0;
  for(i=0; rc==SQLITE_OK && i<nRoot; i++){
    i64 n = 0;
    if( aRoot[i] ) TP_CALL(rc, p, tpsql_count(TPH(p)->pConn, aRoot[i], &n));
    sqlite3MemSetArrayInt64(aCnt, i, n);
  }
  return rc;
}
