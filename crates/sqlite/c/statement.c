/* Statements: the texts of errors, and the retry of a statement that was the victim of a deadlock. */

/* Sets the statement's error text if rc is an error of an environment. Returns the error's code. */
static int sqlite3TpError(Vdbe *p, int rc){
  sqlite3 *db = p->db;
  int i;
  for(i=0; i<db->nDb; i++){
    const char *z;
    int code, n;
    if( !sqlite3TpHandleIsOurs(db->aDb[i].pBt) ) continue;
    n = tpsql_sentence(TPH(db->aDb[i].pBt)->pConn, rc, &code, &z);
    if( n==0 ) continue;
    if( p->zErrMsg==0 || code!=rc ) sqlite3VdbeError(p, "%.*s", n, z);
    return code;
  }
  return rc;
}

/* Sets the text of an error of the reading of the schema, if rc is an error of the environment. Returns the error's
** code. */
static int sqlite3TpInitError(sqlite3 *db, Btree *p, int rc, char **pz){
  const char *z;
  int code, n = sqlite3TpHandleIsOurs(p) ? tpsql_sentence(TPH(p)->pConn, rc, &code, &z) : 0;
  if( n==0 ) return rc;
  sqlite3DbFree(db, *pz);
  *pz = sqlite3MPrintf(db, "%.*s", n, z);
  return code;
}

static void sqlite3TpStepBegins(Vdbe *v, TpStep *t){
  t->iLastRowid = v->db->lastRowid;
  t->nTotalChange = v->db->nTotalChange;
  t->nChange = v->db->nChange;
  t->wasAuto = v->db->autoCommit;
  t->nAgain = 0;
  t->isFresh = v->eVdbeState!=VDBE_RUN_STATE;
}
/* Returns whether an operation may have an effect outside of the database: it calls a function of the program that is
** not deterministic, or writes to a virtual table. */
static int tpHasEffects(const Op *aOp, int nOp){
  int i;
  for(i=0; i<nOp; i++){
    const FuncDef *f = aOp[i].p4type==P4_FUNCDEF ? aOp[i].p4.pFunc : aOp[i].p4type==P4_FUNCCTX ? aOp[i].p4.pCtx->pFunc : 0;
    if( f && (f->funcFlags & (SQLITE_FUNC_BUILTIN|SQLITE_FUNC_CONSTANT))==0 ) return 1;
    if( aOp[i].opcode==OP_VUpdate ) return 1;
  }
  return 0;
}
static int tpWasVictim(sqlite3 *db){
  int i, wasVictim = 0;
  for(i=0; i<db->nDb; i++){
    if( sqlite3TpHandleIsOurs(db->aDb[i].pBt) ) wasVictim |= tpsql_was_victim(TPH(db->aDb[i].pBt)->pConn);
  }
  return wasVictim;
}
static int tpIsDoomed(sqlite3 *db){
  int i;
  for(i=0; i<db->nDb; i++){
    if( sqlite3TpHandleIsOurs(db->aDb[i].pBt) && tpsql_is_doomed(TPH(db->aDb[i].pBt)->pConn) ) return 1;
  }
  return 0;
}
static void tpDoomAll(sqlite3 *db, int isReported, const char *zCause){
  int i;
  for(i=0; i<db->nDb; i++){
    if( sqlite3TpHandleIsOurs(db->aDb[i].pBt) ) tpsql_doom(TPH(db->aDb[i].pBt)->pConn, isReported, zCause);
  }
}
#include "replay.c"
/* Returns whether a statement that was the victim of a deadlock may run again by itself: it is outside of a
** transaction, no other statement is open, and the program has not got a row of the statement. */
static int tpMayRunAgain(Vdbe *v, TpStep *t){
  sqlite3 *db = v->db;
  if( !t->isFresh || !t->wasAuto || !db->autoCommit || t->nAgain>=10 ) return 0;
  if( db->nVdbeActive!=(v->eVdbeState==VDBE_RUN_STATE) ) return 0;
  if( tpHasHooks(db) || tpStatementHasEffects(v) ) return 0;
  t->nAgain++;
  return 1;
}
static int sqlite3Step(Vdbe*);
/* Makes a step. RELEASE of the outermost savepoint of a doomed transaction rolls the transaction back, but for SQLite
** the transaction is still open. So it is doomed again. */
static int tpStepDoomed(Vdbe *v){
  sqlite3 *db = v->db;
  int wasDoomed = v->eVdbeState!=VDBE_RUN_STATE && !db->autoCommit && tpIsDoomed(db);
  int rc = sqlite3Step(v);
  if( wasDoomed && !db->autoCommit && !tpIsDoomed(db) ) tpDoomAll(db, 1, "an earlier error");
  return rc;
}
static int sqlite3TpStep(Vdbe *v, TpStep *t){
  int rc = tpStepDoomed(v), isSame = 1;
  /* A statement within another statement is not retried: the outer statement is retried as a whole. */
  while( isSame && (rc&0xff)==SQLITE_BUSY && v->db->nVdbeExec==0 && tpWasVictim(v->db) ){
    if( tpMayRunAgain(v, t) ){
      sqlite3_reset((sqlite3_stmt*)v);
      v->db->lastRowid = t->iLastRowid;
      v->db->nTotalChange = t->nTotalChange;
    }else if( tpMayReplay(v, t) ){
      isSame = tpReplay(v, t);
    }else{
      break;
    }
    rc = tpStepDoomed(v);
  }
  tpNote(v, rc, t);
  return rc;
}
