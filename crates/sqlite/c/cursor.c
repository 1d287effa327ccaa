/* Cursors. The shim passes a key of an index to Rust as an array of fields, which src/keys.rs encodes: the order of the
** encoded bytes is SQLite's order of the keys. */

/* Stores the order of each column, for src/keys.rs: the collation, plus 4 for DESC. The collation is compared by its
** function, because the program may have replaced NOCASE. */
static int nocaseCollatingFunc(void*, int, const void*, int, const void*);
static int rtrimCollFunc(void*, int, const void*, int, const void*);
static int tpColumns(KeyInfo *k, u8 *a){
  int i;
  for(i=0; i<k->nKeyField; i++){
    CollSeq *p = k->aColl[i];
    int e = p==0 || sqlite3StrICmp(p->zName, "BINARY")==0 ? 0 : k->enc!=SQLITE_UTF8 ? 3
          : p->xCmp==nocaseCollatingFunc ? 1 : p->xCmp==rtrimCollFunc ? 2 : 3;
    a[i] = (u8)(e | (k->aSortFlags && (k->aSortFlags[i] & KEYINFO_ORDER_DESC) ? 4 : 0));
  }
  return k->nKeyField;
}
static TpField *tpFields(TpPlace *c, const Mem *aMem, int n){
  int i;
  for(i=0; i<n; i++){
    const Mem *m = &aMem[i];
    TpField *f = &c->aField[i];
    memset(f, 0, sizeof(*f));
    if( m->flags & MEM_Null ) continue;
    if( m->flags & (MEM_Int|MEM_IntReal) ){ f->eType = 1; f->i = m->u.i; continue; }
    if( m->flags & MEM_Real ){ f->eType = 2; f->r = m->u.r; continue; }
    f->eType = (m->flags & MEM_Str) ? 3 : 4;
    f->z = (const u8*)m->z;
    f->n = m->n;
    f->nZero = (m->flags & MEM_Zero) ? m->u.nZero : 0;
  }
  return c->aField;
}
/* Returns how many of n fields are encoded, and stores whether these are the whole key of an entry. An entry of a
** UNIQUE index has the rowid in its key only if a column is NULL. So the check whether a new row is unique looks up one
** key, and locks no gap. */
static int tpNumber(TpPlace *c, const Mem *aMem, int n, int *pIsWhole){
  KeyInfo *k = c->pKeyInfo;
  int i, nUnique = k->nTpUnique;
  for(i=0; i<nUnique && i<n && (aMem[i].flags & MEM_Null)==0; i++){}
  *pIsWhole = nUnique>0 && i==nUnique;
  if( *pIsWhole ) return nUnique;
  *pIsWhole = n>=k->nKeyField;
  return n<k->nKeyField ? n : k->nKeyField;
}

SQLITE_PRIVATE int sqlite3BtreeCursor(Btree *p, Pgno i, int wr, struct KeyInfo *k, BtCursor *pCur) {
  TpPlace *c;
  int rc, nColumn = 0, nField = k ? k->nKeyField : 0;
  u8 *aColumn;
  if( p->pTp==0 ) return stockBtreeCursor(p, i, wr, k, pCur);
  c = sqlite3MallocZero(sizeof(*c) + nField*(sizeof(TpField)+1));
  if( c==0 ) return SQLITE_NOMEM_BKPT;
  c->pConn = TPH(p)->pConn;
  c->iRoot = i;
  c->pKeyInfo = k;
  c->aField = (TpField*)&c[1];
  aColumn = (u8*)&c->aField[nField];
  if( k ) nColumn = tpColumns(k, aColumn);
  TP_CALL(rc, p, tpsql_cursor(c->pConn, i, wr!=0, k ? aColumn : 0, nColumn, &c->iCursor));
  if( rc!=SQLITE_OK ){ sqlite3_free(c); return rc; }
  pCur->pBtree = p;
  pCur->pBt = p->pBt;
  pCur->pKeyInfo = k;
  pCur->pgnoRoot = i;
  pCur->curIntKey = k==0;
  pCur->pTp = c;
  return SQLITE_OK;
}
SQLITE_PRIVATE int sqlite3BtreeCloseCursor(BtCursor *p) {
  TpPlace *c = TPP(p);
  if( c==0 ) return stockBtreeCloseCursor(p);
  tpsql_cursor_close(c->pConn, c->iCursor);
  sqlite3_free(c->aRow);
  sqlite3_free(c);
  p->pTp = 0;
  p->pBtree = 0;
  return SQLITE_OK;
}
SQLITE_PRIVATE void sqlite3BtreeClearCursor(BtCursor *p) {
  TpPlace *c = TPP(p);
  if( c ) tpsql_cursor_clear(c->pConn, c->iCursor); else stockBtreeClearCursor(p);
}
SQLITE_PRIVATE int sqlite3BtreeCursorHasMoved(BtCursor *p) {
  TpPlace *c = TPP(p);
  return c ? tpsql_has_moved(c->pConn, c->iCursor) : stockBtreeCursorHasMoved(p);
}
SQLITE_PRIVATE int sqlite3BtreeCursorIsValidNN(BtCursor *p) {
  TpPlace *c = TPP(p);
  return c ? !tpsql_has_moved(c->pConn, c->iCursor) : stockBtreeCursorIsValidNN(p);
}
SQLITE_PRIVATE int sqlite3BtreeCursorRestore(BtCursor *p, int *pd) {
  TpPlace *c = TPP(p);
  int rc;
  if( c==0 ) return stockBtreeCursorRestore(p, pd);
  TP_CALL(rc, p->pBtree, tpsql_restore(c->pConn, c->iCursor, pd));
  return rc;
}
SQLITE_PRIVATE int sqlite3BtreeFirst(BtCursor *p, int *pRes) {
  TpPlace *c = TPP(p);
  int rc;
  if( c==0 ) return stockBtreeFirst(p, pRes);
  TP_CALL(rc, p->pBtree, tpsql_first(c->pConn, c->iCursor, pRes));
  return rc;
}
SQLITE_PRIVATE int sqlite3BtreeIsEmpty(BtCursor *p, int *pRes) { return p->pTp ? sqlite3BtreeFirst(p, pRes) : stockBtreeIsEmpty(p, pRes); }
SQLITE_PRIVATE int sqlite3BtreeLast(BtCursor *p, int *pRes) {
  TpPlace *c = TPP(p);
  int rc;
  if( c==0 ) return stockBtreeLast(p, pRes);
  TP_CALL(rc, p->pBtree, tpsql_last(c->pConn, c->iCursor, pRes));
  return rc;
}
SQLITE_PRIVATE int sqlite3BtreeNext(BtCursor *p, int f) {
  TpPlace *c = TPP(p);
  int rc;
  if( c==0 ) return stockBtreeNext(p, f);
  TP_CALL(rc, p->pBtree, tpsql_next(c->pConn, c->iCursor));
  return rc;
}
SQLITE_PRIVATE int sqlite3BtreePrevious(BtCursor *p, int f) {
  TpPlace *c = TPP(p);
  int rc;
  if( c==0 ) return stockBtreePrevious(p, f);
  TP_CALL(rc, p->pBtree, tpsql_previous(c->pConn, c->iCursor));
  return rc;
}
/* This call cannot return an error. After an error it returns 0, and the cursor returns the error when SQLite reads the
** entry. */
SQLITE_PRIVATE int sqlite3BtreeEof(BtCursor *p) {
  TpPlace *c = TPP(p);
  int rc, isEnd = 0;
  if( c==0 ) return stockBtreeEof(p);
  TP_CALL(rc, p->pBtree, tpsql_eof(c->pConn, c->iCursor, &isEnd));
  if( rc!=SQLITE_OK ) tpsql_cursor_fail(c->pConn, c->iCursor, rc);
  return rc==SQLITE_OK && isEnd;
}
SQLITE_PRIVATE i64 sqlite3BtreeIntegerKey(BtCursor *p) { return p->pTp ? tpsql_rowid(TPP(p)->pConn, TPP(p)->iCursor) : stockBtreeIntegerKey(p); }
SQLITE_PRIVATE void sqlite3BtreeCursorPin(BtCursor *p) { if( p->pTp ) tpsql_pin(TPP(p)->pConn, TPP(p)->iCursor, 1); else stockBtreeCursorPin(p); }
SQLITE_PRIVATE void sqlite3BtreeCursorUnpin(BtCursor *p) { if( p->pTp ) tpsql_pin(TPP(p)->pConn, TPP(p)->iCursor, 0); else stockBtreeCursorUnpin(p); }
SQLITE_PRIVATE i64 sqlite3BtreeOffset(BtCursor *p) { return p->pTp ? 0 : stockBtreeOffset(p); }
SQLITE_PRIVATE sqlite3_int64 sqlite3BtreeMaxRecordSize(BtCursor *p) { return p->pTp ? 0x7fffffff : stockBtreeMaxRecordSize(p); }
SQLITE_PRIVATE i64 sqlite3BtreeRowCountEst(BtCursor *p) { return p->pTp ? 1000000 : stockBtreeRowCountEst(p); }
SQLITE_PRIVATE int sqlite3BtreeCount(sqlite3 *db, BtCursor *p, i64 *pn) {
  int rc;
  if( p->pTp==0 ) return stockBtreeCount(db, p, pn);
  TP_CALL(rc, p->pBtree, tpsql_count(TPP(p)->pConn, TPP(p)->iRoot, pn));
  return rc;
}

/* ---- the record at the cursor ---- */
SQLITE_PRIVATE u32 sqlite3BtreePayloadSize(BtCursor *p) {
  u32 n;
  if( p->pTp==0 ) return stockBtreePayloadSize(p);
  tpsql_value(TPP(p)->pConn, TPP(p)->iCursor, &n);
  return n;
}
SQLITE_PRIVATE const void *sqlite3BtreePayloadFetch(BtCursor *p, u32 *pn) {
  return p->pTp ? tpsql_value(TPP(p)->pConn, TPP(p)->iCursor, pn) : stockBtreePayloadFetch(p, pn);
}
SQLITE_PRIVATE int sqlite3BtreePayload(BtCursor *p, u32 o, u32 n, void *pBuf) {
  u32 nAll;
  const u8 *a;
  if( p->pTp==0 ) return stockBtreePayload(p, o, n, pBuf);
  a = tpsql_value(TPP(p)->pConn, TPP(p)->iCursor, &nAll);
  if( (u64)o+n>nAll ) return SQLITE_CORRUPT_BKPT;
  if( n>0 ) memcpy(pBuf, a+o, n);
  return SQLITE_OK;
}
static int tpStand(BtCursor *p){
  int differs = 0, rc = SQLITE_OK;
  if( sqlite3BtreeCursorHasMoved(p) ) rc = sqlite3BtreeCursorRestore(p, &differs);
  return rc==SQLITE_OK && differs ? SQLITE_ABORT : rc;
}
SQLITE_PRIVATE int sqlite3BtreePayloadChecked(BtCursor *p, u32 o, u32 n, void *pBuf) {
  int rc;
  if( p->pTp==0 ) return stockBtreePayloadChecked(p, o, n, pBuf);
  rc = tpStand(p);
  return rc==SQLITE_OK ? sqlite3BtreePayload(p, o, n, pBuf) : rc;
}
SQLITE_PRIVATE int sqlite3BtreePutData(BtCursor *p, u32 o, u32 n, void *z) {
  int rc;
  if( p->pTp==0 ) return stockBtreePutData(p, o, n, z);
  rc = tpStand(p);
  sqlite3TpCannotReplay(p->pBtree->db);
  if( rc==SQLITE_OK ) TP_CALL(rc, p->pBtree, tpsql_put_part(TPP(p)->pConn, TPP(p)->iCursor, o, n, z));
  return rc;
}
/* A blob handle has stored the blob's offset in the record, so a change of the row ends the handle. */
SQLITE_PRIVATE void sqlite3BtreeIncrblobCursor(BtCursor *p) {
  if( p->pTp ) tpsql_blob(TPP(p)->pConn, TPP(p)->iCursor); else stockBtreeIncrblobCursor(p);
}

/* ---- looking up ---- */
SQLITE_PRIVATE int sqlite3BtreeTableMoveto(BtCursor *p, i64 iKey, int bias, int *pRes) {
  int rc;
  if( p->pTp==0 ) return stockBtreeTableMoveto(p, iKey, bias, pRes);
  TP_CALL(rc, p->pBtree, tpsql_seek_row(TPP(p)->pConn, TPP(p)->iCursor, iKey, pRes));
  return rc;
}
/* eqSeen tells SQLite that an equal key was found; otherwise SQLite ends a search for equal keys without a row. */
SQLITE_PRIVATE int sqlite3BtreeIndexMoveto(BtCursor *p, UnpackedRecord *u, int *pRes) {
  TpPlace *c = TPP(p);
  int rc, n, isWhole;
  u8 eqSeen = 0;
  if( c==0 ) return stockBtreeIndexMoveto(p, u, pRes);
  u->errCode = 0;
  n = tpNumber(c, u->aMem, u->nField, &isWhole);
  if( isWhole && n<u->nField && n<c->pKeyInfo->nKeyField ){
    /* SQLite gives more fields than the entry's key has, so the other fields are compared with the entry's record. */
    TP_CALL(rc, p->pBtree, tpsql_seek_key(c->pConn, c->iCursor, tpFields(c, u->aMem, n), n, 1, 0, 0, &eqSeen, pRes));
    if( rc==SQLITE_OK && *pRes==0 ){
      u32 nRecord;
      const void *pRecord = tpsql_value(c->pConn, c->iCursor, &nRecord);
      *pRes = sqlite3VdbeRecordCompare((int)nRecord, pRecord, u);
      if( u->errCode ) rc = u->errCode==SQLITE_NOMEM ? SQLITE_NOMEM_BKPT : SQLITE_CORRUPT_BKPT;
    }
    return rc;
  }
  TP_CALL(rc, p->pBtree, tpsql_seek_key(c->pConn, c->iCursor, tpFields(c, u->aMem, n), n, isWhole, u->default_rc,
                                        (p->hints & BTREE_SEEK_EQ)!=0, &eqSeen, pRes));
  u->eqSeen |= eqSeen;
  return rc;
}

/* ---- changes ---- */
static int tpPutKey(BtCursor *p, const Mem *aMem, int nMem, const void *pRecord, i64 n){
  TpPlace *c = TPP(p);
  UnpackedRecord *u = 0;
  int rc, isWhole;
  if( nMem==0 ){
    u = sqlite3VdbeAllocUnpackedRecord(c->pKeyInfo);
    if( u==0 ) return SQLITE_NOMEM_BKPT;
    sqlite3VdbeRecordUnpack((int)n, pRecord, u);
    aMem = u->aMem;
    nMem = u->nField;
  }
  nMem = tpNumber(c, aMem, nMem, &isWhole);
  TP_CALL(rc, p->pBtree, tpsql_put_key(c->pConn, c->iCursor, tpFields(c, aMem, nMem), nMem, pRecord, n));
  if( u ) sqlite3DbFree(c->pKeyInfo->db, u);
  return rc;
}
SQLITE_PRIVATE int sqlite3BtreeInsert(BtCursor *p, const BtreePayload *x, int flags, int seekResult) {
  TpPlace *c = TPP(p);
  int isBrought = (flags & BTREE_PREFORMAT)!=0, rc;
  if( c==0 ) return stockBtreeInsert(p, x, flags, seekResult);
  if( c->pKeyInfo ) return isBrought ? tpPutKey(p, 0, 0, c->aRow, c->nRow) : tpPutKey(p, x->aMem, x->nMem, x->pKey, x->nKey);
  TP_CALL(rc, p->pBtree, isBrought ? tpsql_put_row(c->pConn, c->iCursor, x->nKey, c->aRow, (int)c->nRow, 0)
                                   : tpsql_put_row(c->pConn, c->iCursor, x->nKey, x->pData, x->nData, x->nZero));
  return rc;
}
SQLITE_PRIVATE int sqlite3BtreeTransferRow(BtCursor *d, BtCursor *s, i64 iKey) {
  TpPlace *c = TPP(d);
  u8 *a;
  if( c==0 && s->pTp==0 ) return stockBtreeTransferRow(d, s, iKey);
  /* xferOptimization does not copy rows between an environment and a file. */
  if( c==0 || s->pTp==0 ) return SQLITE_INTERNAL;
  c->nRow = sqlite3BtreePayloadSize(s);
  a = sqlite3_realloc64(c->aRow, c->nRow+1);
  if( a==0 ) return SQLITE_NOMEM_BKPT;
  c->aRow = a;
  return sqlite3BtreePayload(s, 0, c->nRow, c->aRow);
}
SQLITE_PRIVATE int sqlite3BtreeDelete(BtCursor *p, u8 flags) {
  int rc;
  if( p->pTp==0 ) return stockBtreeDelete(p, flags);
  rc = tpStand(p);
  /* The row at the cursor is removed already. */
  if( rc==SQLITE_ABORT ) return SQLITE_OK;
  if( rc==SQLITE_OK ) TP_CALL(rc, p->pBtree, tpsql_delete(TPP(p)->pConn, TPP(p)->iCursor));
  return rc;
}
static int sqlite3TpIsOurs(BtCursor *p){ return p->pTp!=0; }
static int sqlite3TpNewRowid(BtCursor *p, i64 *pv){
  int rc;
  TP_CALL(rc, p->pBtree, tpsql_new_rowid(TPP(p)->pConn, TPP(p)->iCursor, pv));
  /* The last rowid is the largest possible number. After SQLITE_FULL, SQLite tries random rowids. */
  return rc==SQLITE_DONE ? SQLITE_FULL : rc;
}
