/* Handles: which names are environments, opening and closing, and the properties of a handle. */
#include <sys/stat.h>

static int sqlite3TpHandleIsOurs(Btree *p){ return p!=0 && p->pTp!=0; }

/* Returns the absolute name with its URI parameters, in the form that sqlite3_db_filename returns. */
static const char *tpFilename(sqlite3_vfs *pVfs, const char *z){
  const char *aParam[2*32];
  const char *zKey, *zResult;
  int nParam = 0;
  char *zFull = sqlite3MallocZero(pVfs->mxPathname+1);
  if( zFull==0 ) return 0;
  if( (sqlite3OsFullPathname(pVfs, z, pVfs->mxPathname+1, zFull)&0xff)!=SQLITE_OK ){
    sqlite3_snprintf(pVfs->mxPathname, zFull, "%s", z);
  }
  for(nParam=0; nParam<32 && (zKey = sqlite3_uri_key(z, nParam))!=0; nParam++){
    aParam[2*nParam] = zKey;
    aParam[2*nParam+1] = sqlite3_uri_parameter(z, zKey);
  }
  zResult = sqlite3_create_filename(zFull, "", "", nParam, aParam);
  sqlite3_free(zFull);
  return zResult;
}

/* Returns the library's version. `tp sql --check` searches for the same text in the file of a program that is linked
** statically. */
SQLITE_API const char *sqlite3_tp_version(void){ return "libtp-sqlite " TP_VERSION; }
static void tpVersionFunc(sqlite3_context *p, int n, sqlite3_value **a){
  UNUSED_PARAMETER2(n, a);
  sqlite3_result_text(p, sqlite3_tp_version(), -1, SQLITE_STATIC);
}

/* Returns whether a name means an environment: if it has ?tp=1, ends in .tp, is a directory, or is in LIBTP_SQLITE. A
** name with ?tp=0 never means an environment. tpsql_open later refuses files, and directories that are no environments.
** Returns -1 if LIBTP_SQLITE is invalid. */
static int tpIsEnvironment(sqlite3_vfs *pVfs, const char *z, int vfsFlags){
  int n = sqlite3Strlen30(z);
  struct stat st;
  const char *zFull;
  int rc;
  if( (vfsFlags & SQLITE_OPEN_MAIN_DB)==0 || n==0 || (vfsFlags & SQLITE_OPEN_MEMORY) ) return 0;
  /* sqlite3_deserialize opens a fixed name, after which there are no parameters. */
  if( (vfsFlags & (SQLITE_OPEN_READONLY|SQLITE_OPEN_READWRITE))==0 ) return 0;
  if( strcmp(z, ":memory:")==0 ) return 0;
  if( sqlite3_uri_parameter(z, "tp") ) return sqlite3_uri_boolean(z, "tp", 0);
  if( n>3 && strcmp(&z[n-3], ".tp")==0 ) return 1;
  if( stat(z, &st)==0 && S_ISDIR(st.st_mode) ) return 1;
  if( getenv("LIBTP_SQLITE")==0 ) return 0;
  zFull = tpFilename(pVfs, z);
  rc = zFull ? tpsql_is_chosen(zFull) : 0;
  sqlite3_free_filename(zFull);
  return rc;
}

/* The number of open handles. It is atomic because a signal handler may call sqlite3_interrupt. */
static int tpOpenHandles = 0;
static void sqlite3TpInterrupt(void){
  if( __atomic_load_n(&tpOpenHandles, __ATOMIC_SEQ_CST)>0 ) tpsql_cancel();
}
/* Returns the time limit for a lock wait, in milliseconds: PRAGMA busy_timeout. If the program has a busy handler, each
** wait is short, and tpAgain calls the handler between the waits. (Without these waits, the session would not be in the
** lock's queue, and the deadlock detection would not see it.) If the program has set neither, the limit is one second:
** most locks on rows are held for microseconds. */
static int sqliteDefaultBusyCallback(void*, int);
static int tpWait(sqlite3 *db){
  if( db->busyHandler.xBusyHandler==0 ) return db->bTpNoWait ? 0 : 1000;
  return db->busyHandler.xBusyHandler==sqliteDefaultBusyCallback ? db->busyTimeout : 15;
}
/* Returns whether an opening that failed with rc is to be tried again. */
static int tpOpenAgain(sqlite3 *db, int rc){
  BusyHandler *h = &db->busyHandler;
  if( rc==SQLITE_INTERRUPT ) return AtomicLoad(&db->u1.isInterrupted)==0;
  return rc==SQLITE_BUSY && h->xBusyHandler && h->xBusyHandler!=sqliteDefaultBusyCallback && sqlite3InvokeBusyHandler(h);
}
static int tpOpen(sqlite3_vfs *pVfs, const char *z, Btree *p, int vfsFlags){
  TpHandle *t = sqlite3MallocZero(sizeof(*t));
  int rc;
  if( t==0 ) return SQLITE_NOMEM_BKPT;
  t->zName = tpFilename(pVfs, z);
  t->isReadOnly = (vfsFlags & SQLITE_OPEN_READONLY)!=0;
  t->eSync = PAGER_SYNCHRONOUS_FULL;
  rc = t->zName==0 ? SQLITE_NOMEM_BKPT : SQLITE_OK;
  if( rc==SQLITE_OK ){
    int mayCreate = (vfsFlags & SQLITE_OPEN_CREATE)!=0;
    do{ rc = tpsql_open(t->zName, t->isReadOnly, mayCreate, tpWait(p->db), &t->pConn); }while( tpOpenAgain(p->db, rc) );
  }
  if( rc!=SQLITE_OK ){
    sqlite3_free_filename(t->zName);
    sqlite3_free(t);
    return rc;
  }
  __atomic_add_fetch(&tpOpenHandles, 1, __ATOMIC_SEQ_CST);
  p->pTp = t;
  return SQLITE_OK;
}

SQLITE_PRIVATE int sqlite3BtreeOpen(sqlite3_vfs *pVfs, const char *z, sqlite3 *db, Btree **pp, int flags, int vfsFlags) {
  int rc;
  tpsql_forget_refusal();
  rc = z ? tpIsEnvironment(pVfs, z, vfsFlags) : 0;
  if( rc<0 ) return SQLITE_CANTOPEN_BKPT;
  if( rc==0 ) return stockBtreeOpen(pVfs, z, db, pp, flags, vfsFlags);
  rc = stockBtreeOpen(pVfs, ":memory:", db, pp, flags, vfsFlags & ~SQLITE_OPEN_SHAREDCACHE);
  if( rc!=SQLITE_OK ) return rc;
  rc = tpOpen(pVfs, z, *pp, vfsFlags);
  if( rc!=SQLITE_OK ){
    stockBtreeClose(*pp);
    *pp = 0;
  }
  return rc;
}

/* Returns the error text of an opening that failed. */
static char *sqlite3TpRefusal(sqlite3 *db){
  const char *z;
  int code, n = tpsql_refusal(&code, &z);
  return n>0 ? sqlite3MPrintf(db, "%.*s", n, z) : 0;
}
static void sqlite3TpOpenError(sqlite3 *db, int rc){
  const char *z;
  int code, n = tpsql_refusal(&code, &z);
  if( n>0 && code==rc ) sqlite3ErrorWithMsg(db, rc, "%.*s", n, z); else sqlite3Error(db, rc);
}

SQLITE_PRIVATE int sqlite3BtreeClose(Btree *p) {
  TpHandle *t = TPH(p);
  if( t ){
    sqlite3TpForgetAll(p->db);
    tpsql_close(t->pConn);
    __atomic_sub_fetch(&tpOpenHandles, 1, __ATOMIC_SEQ_CST);
    sqlite3_free_filename(t->zName);
    sqlite3_free(t);
    p->pTp = 0;
  }
  return stockBtreeClose(p);
}

/* Returns whether a call that failed with rc is to be made again. */
static int tpAgain(Btree *p, int rc){
  sqlite3 *db = p->db;
  BusyHandler *h = &db->busyHandler;
  TpConn *c = TPH(p)->pConn;
  if( (rc!=SQLITE_BUSY && rc!=SQLITE_INTERRUPT) || tpsql_failed_before(c) ) return 0;
  if( rc==SQLITE_INTERRUPT && AtomicLoad(&db->u1.isInterrupted)==0 ){
    /* The cancellation was meant for another connection. */
    tpsql_heed(c);
    return 1;
  }
  tpsql_heeded(c);
  if( rc==SQLITE_BUSY && h->xBusyHandler && h->xBusyHandler!=sqliteDefaultBusyCallback && sqlite3InvokeBusyHandler(h) ) return 1;
  return 0;
}
/* Handles an error. A statement within another statement has no savepoint, so a part of its changes would stay after an
** error: the transaction ends. */
static int tpFailed(Btree *p, int rc){
  if( p->db->nVdbeExec>1 && p->db->nVdbeWrite>0 && rc!=SQLITE_DONE && tpsql_state(TPH(p)->pConn)==2 ){
    tpsql_doom(TPH(p)->pConn, 1, "an error of a statement within another statement");
  }
  return rc;
}
/* Makes a call that may wait for a lock, again and again while tpAgain demands it. (A call that does not get a lock
** changes nothing.) */
#define TP_CALL(rc, p, call)  do{ \
    do{ (rc) = (call); }while( (rc)!=SQLITE_OK && tpAgain((p), (rc)) ); \
    if( (rc)!=SQLITE_OK ) tpFailed((p), (rc)); \
  }while(0)

/* Sets the durability and the time limit for waits. NORMAL without WAL is durable in SQLite, so it is durable here. */
static void tpSettings(Btree *p){
  TpHandle *t = TPH(p);
  int isDurable = t->eSync>=PAGER_SYNCHRONOUS_FULL || (t->eSync==PAGER_SYNCHRONOUS_NORMAL && !t->isWal);
  tpsql_settings(t->pConn, isDurable, tpWait(p->db));
}

SQLITE_PRIVATE int sqlite3BtreeSetPagerFlags(Btree *p, unsigned f) {
  if( p->pTp ) TPH(p)->eSync = f & PAGER_SYNCHRONOUS_MASK;
  return stockBtreeSetPagerFlags(p, f);
}
/* SQLite refuses roots above this number. */
SQLITE_PRIVATE Pgno sqlite3BtreeLastPage(Btree *p) { return p->pTp ? 0x7ffffffe : stockBtreeLastPage(p); }
SQLITE_PRIVATE const char *sqlite3BtreeGetFilename(Btree *p) { return p->pTp ? TPH(p)->zName : stockBtreeGetFilename(p); }
SQLITE_PRIVATE int sqlite3BtreeIsReadonly(Btree *p) { return p->pTp ? TPH(p)->isReadOnly : stockBtreeIsReadonly(p); }
SQLITE_PRIVATE int sqlite3BtreeSetVersion(Btree *p, int v) { return p->pTp ? SQLITE_OK : stockBtreeSetVersion(p, v); }
SQLITE_PRIVATE int sqlite3BtreeNewDb(Btree *p) { return p->pTp ? SQLITE_OK : stockBtreeNewDb(p); }
SQLITE_PRIVATE int sqlite3BtreeIncrVacuum(Btree *p) { return p->pTp ? SQLITE_DONE : stockBtreeIncrVacuum(p); }
SQLITE_PRIVATE int sqlite3BtreeCopyFile(Btree *a, Btree *b) { return a->pTp||b->pTp ? SQLITE_ERROR : stockBtreeCopyFile(a, b); }
SQLITE_PRIVATE int sqlite3BtreeCheckpoint(Btree *p, int m, int *a, int *b) {
  if( p==0 || p->pTp==0 ) return stockBtreeCheckpoint(p, m, a, b);
  if( a ) *a = 0;
  if( b ) *b = 0;
  return SQLITE_OK;
}
SQLITE_PRIVATE void sqlite3BtreeClearCache(Btree *p) { if( p->pTp==0 ) stockBtreeClearCache(p); }

/* Handles the file controls and pragmas (SQLITE_FCNTL_PRAGMA) of an environment. Returns whether it has handled
** this call. */
static int tpPragma(Btree *p, char **a, int *pRc){
  if( sqlite3StrICmp(a[1], "journal_mode")==0 ){
    if( a[2] && sqlite3StrICmp(a[2], "wal")==0 ) TPH(p)->isWal = 1;
    a[0] = sqlite3_mprintf("wal");
    return 1;
  }
  if( sqlite3StrICmp(a[1], "tp_rowid")==0 || sqlite3StrICmp(a[1], "tp_immediate")==0 ){
    const char *z = "";
    int n = 0, rc;
    if( a[2] && TPH(p)->isReadOnly ){ *pRc = SQLITE_READONLY; return 1; }
    tpSettings(p);
    TP_CALL(rc, p, tpsql_setting(TPH(p)->pConn, a[1], a[2], &z, &n));
    *pRc = rc;
    a[0] = sqlite3_mprintf("%.*s", n, z);
    return 1;
  }
  if( sqlite3StrICmp(a[1], "page_count")==0 ){
    a[0] = sqlite3_mprintf("%lld", tpsql_bytes(TPH(p)->pConn)/4096);
    return 1;
  }
  return 0;
}
static int sqlite3TpControl(Btree *p, int op, void *pArg, int *pRc){
  *pRc = SQLITE_OK;
  switch( op ){
    case SQLITE_FCNTL_PRAGMA: return tpPragma(p, (char**)pArg, pRc);
    case SQLITE_FCNTL_DATA_VERSION: *(unsigned*)pArg = tpsql_version(TPH(p)->pConn); return 1;
    case SQLITE_FCNTL_HAS_MOVED: *(int*)pArg = tpsql_is_removed(TPH(p)->pConn); return 1;
    case SQLITE_FCNTL_SIZE_HINT: case SQLITE_FCNTL_CHUNK_SIZE: return 1;
  }
  return 0;
}
