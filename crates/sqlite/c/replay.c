/* Checked replay: the statements of a transaction run again after a deadlock.
**
** A connection stores the statements of its open transaction: their texts, their parameters, and a digest of all their
** results that the program has got (rows, codes, counts of changes, the last rowid). If the transaction becomes the
** victim of a deadlock, it is rolled back, and its statements run again. If all results are the same, the transaction
** continues, and the program notices nothing. Otherwise the transaction has ended, and the program gets
** SQLITE_BUSY_SNAPSHOT.
**
** A transaction is not replayed if it has too many statements or too long parameters, if it has an effect outside of
** the database (tpHasEffects, hooks, writes by blob handles), or while another statement is open. */

#define TP_REPLAY_STATEMENTS 64
#define TP_REPLAY_BYTES (1<<20)

typedef struct TpDone TpDone;
struct TpDone {
  char *zSql;
  sqlite3_value **apVar;
  int nVar;
  int rc;                                       /* Extended code of the last step, if isEnded */
  u64 error;                                    /* Hash of the error's text, if isEnded */
  u64 flags;                                    /* Settings of the connection when the statement began */
  u8 isEnded;
  Vdbe *pVdbe;                                  /* The open statement; only compared, never dereferenced */
  i64 nRow;                                     /* Number of rows that the program has got */
  u64 digest;                                   /* Digest of these rows */
  i64 nChange, nTotalChange, iLastRowid;        /* Values before the next statement began */
};
typedef struct TpLog TpLog;
struct TpLog {
  u8 cannot;                                    /* The transaction cannot be replayed */
  u8 isReplaying;
  int nDone;
  i64 nByte;
  i64 nChange, nTotalChange, iLastRowid;        /* Values before the transaction began */
  TpDone aDone[TP_REPLAY_STATEMENTS];
};

static void tpFreeDone(TpDone *d){
  int i;
  for(i=0; d->apVar && i<d->nVar; i++) sqlite3_value_free(d->apVar[i]);
  sqlite3_free(d->apVar);
  sqlite3_free(d->zSql);
  memset(d, 0, sizeof(*d));
}
static void tpForget(TpLog *l){
  while( l->nDone>0 ) tpFreeDone(&l->aDone[--l->nDone]);
  l->nByte = 0;
  l->cannot = 0;
}
static void sqlite3TpForgetAll(sqlite3 *db){
  TpLog *l = db->pTpLog;
  db->pTpLog = 0;
  if( l ) tpForget(l);
  sqlite3_free(l);
}
static void sqlite3TpCannotReplay(sqlite3 *db){
  if( db->pTpLog ) ((TpLog*)db->pTpLog)->cannot = 1;
}
static int tpHasHandle(sqlite3 *db){
  int i;
  for(i=0; i<db->nDb; i++) if( sqlite3TpHandleIsOurs(db->aDb[i].pBt) ) return 1;
  return 0;
}
static int tpHasHooks(sqlite3 *db){
  return db->xUpdateCallback || db->xCommitCallback || db->xRollbackCallback || db->xPreUpdateCallback;
}
static int tpStatementHasEffects(Vdbe *v){
  SubProgram *s;
  if( tpHasEffects(v->aOp, v->nOp) ) return 1;
  for(s=v->pProgram; s; s=s->pNext) if( tpHasEffects(s->aOp, s->nOp) ) return 1;
  return 0;
}

/* FNV-1a, 64 bits. */
static u64 tpHash(u64 h, const void *p, i64 n){
  const u8 *a = p;
  i64 i;
  for(i=0; i<n; i++) h = (h ^ a[i]) * 0x100000001b3ull;
  return h;
}
static u64 tpDigest(u64 h, const Mem *aMem, int n){
  int i;
  if( h==0 ) h = 0xcbf29ce484222325ull;
  for(i=0; i<n; i++){
    const Mem *m = &aMem[i];
    u16 eType = m->flags & (MEM_Null|MEM_Str|MEM_Int|MEM_Real|MEM_Blob|MEM_IntReal);
    h = tpHash(h, &eType, sizeof(eType));
    if( m->flags & (MEM_Int|MEM_IntReal|MEM_Real) ) h = tpHash(h, &m->u, sizeof(i64));
    if( m->flags & (MEM_Str|MEM_Blob) ){
      h = tpHash(h, &m->n, sizeof(m->n));
      h = tpHash(h, m->z, m->n);
      if( m->flags & MEM_Zero ) h = tpHash(h, &m->u.nZero, sizeof(m->u.nZero));
    }
  }
  return h;
}

/* Stores a statement in the log. Returns 0 if the statement cannot be replayed. */
static TpDone *tpKeep(TpLog *l, Vdbe *v){
  TpDone *d = &l->aDone[l->nDone];
  int i;
  if( l->nDone==TP_REPLAY_STATEMENTS || v->zSql==0 || tpHasHooks(v->db) || tpStatementHasEffects(v) ) return 0;
  l->nByte += sqlite3Strlen30(v->zSql);
  for(i=0; i<v->nVar; i++){
    if( (v->aVar[i].flags & MEM_Subtype) && v->aVar[i].eSubtype=='p' ) return 0;
    l->nByte += sizeof(Mem) + ((v->aVar[i].flags & (MEM_Str|MEM_Blob)) ? v->aVar[i].n : 0);
  }
  if( l->nByte>TP_REPLAY_BYTES ) return 0;
  l->nDone++;
  d->flags = v->db->flags;
  d->zSql = sqlite3_mprintf("%s", v->zSql);
  d->apVar = sqlite3MallocZero(sizeof(sqlite3_value*)*(v->nVar+1));
  if( d->zSql==0 || d->apVar==0 ) return 0;
  for(i=0; i<v->nVar; i++){
    d->nVar++;
    if( (d->apVar[i] = sqlite3_value_dup(&v->aVar[i]))==0 ) return 0;
  }
  return d;
}
/* Returns a hash of the text of a statement's error. */
static u64 tpError(Vdbe *v){
  const char *z = v->rc==SQLITE_OK || v->rc==SQLITE_DONE ? "" : sqlite3_errmsg(v->db);
  return tpHash(1, z, sqlite3Strlen30(z));
}
/* Stores the counts of changes and the last rowid after the last statement. They are read when the next statement
** begins: a statement that the program has not read to its end makes its last changes when it is reset. */
static void tpNoteChanges(TpLog *l, TpStep *t){
  TpDone *d;
  if( l->nDone==0 ) return;
  d = &l->aDone[l->nDone-1];
  d->nChange = t->nChange;
  d->nTotalChange = t->nTotalChange;
  d->iLastRowid = t->iLastRowid;
}
/* Stores the result of a sqlite3_step in the log. */
static void tpNote(Vdbe *v, int rc, TpStep *t){
  sqlite3 *db = v->db;
  TpLog *l = db->pTpLog;
  TpDone *d = 0;
  int i;
  if( (l && l->isReplaying) || db->init.busy ) return;
  if( db->autoCommit ){
    if( l && (l->nDone || l->cannot) ) tpForget(l);
    return;
  }
  if( db->nVdbeExec>0 || (rc&0xff)==SQLITE_SCHEMA ) return;
  if( l==0 ){
    if( !tpHasHandle(db) ) return;
    l = db->pTpLog = sqlite3MallocZero(sizeof(*l));
    if( l==0 ) return;
  }
  if( l->cannot ) return;
  for(i=0; i<l->nDone; i++) if( l->aDone[i].pVdbe==v ) d = &l->aDone[i];
  if( t->isFresh ){
    if( d ) d->pVdbe = 0;
    tpNoteChanges(l, t);
    if( l->nDone==0 ){
      l->nChange = t->nChange;
      l->nTotalChange = t->nTotalChange;
      l->iLastRowid = t->iLastRowid;
    }
    d = tpKeep(l, v);
  }
  if( d==0 ){ l->cannot = 1; return; }
  if( rc==SQLITE_ROW ){
    d->pVdbe = v;
    d->digest = tpDigest(d->digest, v->pResultRow, v->nResColumn);
    d->nRow++;
    return;
  }
  d->pVdbe = 0;
  if( (rc&0xff)==SQLITE_BUSY && d->nRow==0 && d==&l->aDone[l->nDone-1] ){
    /* The statement was undone because it did not get a lock. In a replay it might get the lock, so it is not kept. */
    l->nDone--;
    tpFreeDone(d);
    return;
  }
  d->isEnded = 1;
  d->rc = v->rc;
  d->error = tpError(v);
}

/* Runs a statement again. Returns whether its results are the same as before. */
static int tpIsSame(sqlite3 *db, TpDone *d){
  sqlite3_stmt *s = 0;
  u64 digest = 0;
  i64 n = 0;
  int i, isSame = sqlite3_prepare_v2(db, d->zSql, -1, &s, 0)==SQLITE_OK && s!=0;
  for(i=0; isSame && i<d->nVar; i++) isSame = sqlite3_bind_value(s, i+1, d->apVar[i])==SQLITE_OK;
  for(n=0; isSame && n<d->nRow; n++){
    isSame = sqlite3_step(s)==SQLITE_ROW;
    if( isSame ) digest = tpDigest(digest, ((Vdbe*)s)->pResultRow, ((Vdbe*)s)->nResColumn);
  }
  isSame = isSame && digest==d->digest;
  if( isSame && d->isEnded ){
    sqlite3_step(s);
    isSame = ((Vdbe*)s)->rc==d->rc && tpError((Vdbe*)s)==d->error;
  }
  sqlite3_finalize(s);
  return isSame && !db->autoCommit && db->nChange==d->nChange && db->nTotalChange==d->nTotalChange
      && db->lastRowid==d->iLastRowid;
}
static int tpMayReplay(Vdbe *v, TpStep *t){
  sqlite3 *db = v->db;
  TpLog *l = db->pTpLog;
  int i;
  if( l==0 || l->cannot || l->isReplaying || l->nDone==0 || t->wasAuto || !t->isFresh || t->nAgain>=10 ) return 0;
  if( db->nVdbeActive!=(v->eVdbeState==VDBE_RUN_STATE) || tpHasHooks(db) || tpStatementHasEffects(v) ) return 0;
  /* A replay would run the statements with the connection's present settings. */
  for(i=0; i<l->nDone; i++) if( l->aDone[i].flags!=db->flags ) return 0;
  t->nAgain++;
  return 1;
}
/* Makes SQLite's transaction and savepoints as the program expects them, and dooms the transaction. */
static void tpDoomReplay(sqlite3 *db, char **azName, int nName, int hasOuter){
  int i;
  if( db->autoCommit && !hasOuter ) sqlite3_exec(db, "BEGIN", 0, 0, 0);
  for(i=db->nSavepoint + db->isTransactionSavepoint; i<nName; i++){
    char *z = sqlite3_mprintf("SAVEPOINT \"%w\"", azName[i]);
    if( z ) sqlite3_exec(db, z, 0, 0, 0);
    sqlite3_free(z);
  }
  tpDoomAll(db, 0, "a deadlock, and its statements could not run again with the same results");
}
/* Runs the statements of the transaction again. If a result differs, the transaction has ended, and each later call
** fails. */
static int tpReplay(Vdbe *v, TpStep *t){
  sqlite3 *db = v->db;
  TpLog *l = db->pTpLog;
  Savepoint *p;
  char *azName[TP_REPLAY_STATEMENTS];
  int i, isSame = 1, nName = 0, hasOuter = db->isTransactionSavepoint;
  /* SQLite's list of savepoints begins with the newest. */
  for(p=db->pSavepoint; p && nName<TP_REPLAY_STATEMENTS; p=p->pNext) nName++;
  for(p=db->pSavepoint, i=nName-1; i>=0; p=p->pNext, i--) azName[i] = sqlite3_mprintf("%s", p->zName);
  tpNoteChanges(l, t);
  l->isReplaying = 1;
  sqlite3_reset((sqlite3_stmt*)v);
  /* After a COMMIT that failed, the transaction is rolled back already. */
  if( !db->autoCommit ){
    for(i=0; i<db->nDb; i++) if( sqlite3TpHandleIsOurs(db->aDb[i].pBt) ) tpsql_replays(TPH(db->aDb[i].pBt)->pConn);
    isSame = sqlite3_exec(db, "ROLLBACK", 0, 0, 0)==SQLITE_OK;
  }
  db->nChange = l->nChange;
  db->nTotalChange = l->nTotalChange;
  db->lastRowid = l->iLastRowid;
  for(i=0; isSame && i<l->nDone; i++) isSame = tpIsSame(db, &l->aDone[i]);
  if( !isSame ){
    tpDoomReplay(db, azName, nName, hasOuter);
    l->cannot = 1;
  }
  l->isReplaying = 0;
  for(i=0; i<nName; i++) sqlite3_free(azName[i]);
  return isSame;
}
