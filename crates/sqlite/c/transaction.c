/* Transactions: begin, commit, rollback, savepoints. docs/sql.md describes their behaviour. */

SQLITE_PRIVATE int sqlite3BtreeTxnState(Btree *p) { return p && p->pTp ? tpsql_state(TPH(p)->pConn) : stockBtreeTxnState(p); }

static int tpBegin(Btree *p, int eHow, int *pVersion){
  TpConn *c = TPH(p)->pConn;
  int rc;
  if( eHow!=TP_READ && TPH(p)->isReadOnly ) return SQLITE_READONLY;
  tpSettings(p);
  TP_CALL(rc, p, tpsql_begin(c, eHow));
  if( rc==SQLITE_OK && pVersion ) *pVersion = (int)tpsql_meta(c, BTREE_SCHEMA_VERSION);
  if( rc==SQLITE_OK && eHow!=TP_READ ) rc = tpsql_savepoints(c, p->db->nSavepoint);
  return rc;
}
SQLITE_PRIVATE int sqlite3BtreeBeginTrans(Btree *p, int wr, int *pVersion) {
  return p->pTp ? tpBegin(p, wr ? TP_WRITE : TP_READ, pVersion) : stockBtreeBeginTrans(p, wr, pVersion);
}
/* OP_Transaction calls this. Of the statements with this operation, only BEGIN IMMEDIATE and BEGIN EXCLUSIVE also have
** an operation that ends autocommit. */
static int sqlite3TpBeginTrans(Vdbe *v, Btree *p, int wr, int *pVersion){
  int rc, i, eHow = wr ? TP_WRITE : TP_READ;
  if( p->pTp==0 ) return sqlite3BtreeBeginTrans(p, wr, pVersion);
  for(i=v->nOp-1; wr && p->db->autoCommit && i>=0 && i>=v->nOp-4; i--){
    if( v->aOp[i].opcode==OP_AutoCommit && v->aOp[i].p1==0 ) eHow = wr>1 ? TP_EXCLUSIVE : TP_IMMEDIATE;
  }
  rc = tpBegin(p, eHow, pVersion);
  return rc==SQLITE_OK ? rc : sqlite3TpError(v, rc);
}
/* An open SELECT continues only if all rows that it has read are unchanged. Otherwise its cursors fail, and it must not
** open new cursors. */
static void tpExpire(Btree *p){
  if( tpsql_has_expired(TPH(p)->pConn) ) sqlite3ExpirePreparedStatements(p->db, 0);
}
SQLITE_PRIVATE int sqlite3BtreeCommitPhaseTwo(Btree *p, int c) {
  int rc;
  if( p->pTp==0 ) return stockBtreeCommitPhaseTwo(p, c);
  TP_CALL(rc, p, tpsql_commit(TPH(p)->pConn, p->db->nVdbeRead>1));
  tpExpire(p);
  return rc;
}
/* With a super-journal (z) SQLite ignores errors of the second phase, so the environment commits in the first phase. */
SQLITE_PRIVATE int sqlite3BtreeCommitPhaseOne(Btree *p, const char *z) {
  int rc;
  if( p->pTp==0 ) return stockBtreeCommitPhaseOne(p, z);
  TP_CALL(rc, p, tpsql_prepare(TPH(p)->pConn));
  return rc==SQLITE_OK && z ? sqlite3BtreeCommitPhaseTwo(p, 0) : rc;
}
SQLITE_PRIVATE int sqlite3BtreeCommit(Btree *p) {
  int rc;
  if( p->pTp==0 ) return stockBtreeCommit(p);
  rc = sqlite3BtreeCommitPhaseOne(p, 0);
  return rc==SQLITE_OK ? sqlite3BtreeCommitPhaseTwo(p, 0) : rc;
}
SQLITE_PRIVATE int sqlite3BtreeTripAllCursors(Btree *p, int e, int w) {
  if( p==0 || p->pTp==0 ) return stockBtreeTripAllCursors(p, e, w);
  tpsql_trip(TPH(p)->pConn, e, w);
  return SQLITE_OK;
}
SQLITE_PRIVATE int sqlite3BtreeRollback(Btree *p, int trip, int w) {
  if( p->pTp==0 ) return stockBtreeRollback(p, trip, w);
  if( trip ) tpsql_trip(TPH(p)->pConn, trip, w);
  trip = tpsql_roll_back(TPH(p)->pConn, p->db->nVdbeRead>1);
  tpExpire(p);
  return trip;
}
SQLITE_PRIVATE int sqlite3BtreeBeginStmt(Btree *p, int i) {
  return p->pTp ? tpsql_savepoints(TPH(p)->pConn, i) : stockBtreeBeginStmt(p, i);
}
/* Savepoints with numbers from nSavepoint on belong to statements. */
SQLITE_PRIVATE int sqlite3BtreeSavepoint(Btree *p, int op, int i) {
  if( p==0 || p->pTp==0 ) return stockBtreeSavepoint(p, op, i);
  return tpsql_savepoint_end(TPH(p)->pConn, op==SAVEPOINT_ROLLBACK, i, i>=p->db->nSavepoint);
}
