//! The patches of SQLite's source outside of its B-tree layer.

use crate::text::Patch;

/// All patches, in the order in which they are applied.
pub const PATCHES: &[Patch] = &[
    Patch {
        name: "a connection keeps the statements of its transaction",
        after: "\nstruct sqlite3 {\n",
        at: "  sqlite3_vfs *pVfs;            /* OS Interface */\n",
        put: "<SAME>  void *pTpLog;                 /* Of replay.c */\n  u8 bTpNoWait;                 /* sqlite3_busy_timeout(db, 0) was called last */\n",
    },
    Patch {
        name: "a new busy handler forgets a timeout of zero",
        after: "\nSQLITE_API int sqlite3_busy_handler(\n",
        at: "  db->busyTimeout = 0;\n",
        put: "<SAME>  db->bTpNoWait = 0;\n",
    },
    Patch {
        name: "a timeout of zero waits for no lock",
        after: "\nSQLITE_API int sqlite3_busy_timeout(sqlite3 *db, int ms){\n",
        at: "    sqlite3_busy_handler(db, 0, 0);\n",
        put: "<SAME>    db->bTpNoWait = 1;\n",
    },
    Patch {
        name: "a B-tree handle knows its environment",
        after: "\nstruct Btree {\n",
        at: "  sqlite3 *db;       /* The database connection holding this btree */\n",
        put: "<SAME>  void *pTp;         /* The handle of an environment, or NULL */\n",
    },
    // This is in the part of the struct that SQLite sets to zero when it makes a cursor.
    Patch {
        name: "a cursor knows its place in an environment",
        after: "\nstruct BtCursor {\n",
        at: "  Btree *pBtree;            /* The Btree to which this cursor belongs */\n",
        put: "<SAME>  void *pTp;                /* The place in an environment, or NULL */\n",
    },
    Patch {
        name: "a key knows how many of its columns are unique",
        after: "\nstruct KeyInfo {\n",
        at: "  u16 nAllField;      /* Total columns, including key plus others */\n",
        put: "<SAME>  u16 nTpUnique;      /* Columns of a UNIQUE index, or 0 */\n",
    },
    Patch {
        name: "a new key has no unique columns",
        after: "\nSQLITE_PRIVATE KeyInfo *sqlite3KeyInfoAlloc(sqlite3 *db, int N, int X){\n",
        at: "    p->nRef = 1;\n",
        put: "<SAME>    p->nTpUnique = 0;\n",
    },
    Patch {
        name: "the key of a UNIQUE index knows its unique columns",
        after: "\nSQLITE_PRIVATE KeyInfo *sqlite3KeyInfoOfIndex(Parse *pParse, Index *pIdx){\n",
        at: "    pKey = sqlite3KeyInfoAlloc(pParse->db, nCol, 0);\n",
        put: "<SAME>    if( pKey && IsUniqueIndex(pIdx) ) pKey->nTpUnique = nKey;\n",
    },
    // SQLite reads the last row for a new rowid. In an environment all inserts would then wait for each other at that
    // row.
    Patch {
        name: "a new rowid comes from the environment",
        after: "\ncase OP_NewRowid: {",
        at: "    if( !pC->useRandomRowid ){\n",
        put: "    if( sqlite3TpIsOurs(pC->uc.pCursor) ){
      rc = sqlite3TpNewRowid(pC->uc.pCursor, &v);
      if( rc==SQLITE_FULL ){ rc = SQLITE_OK; pC->useRandomRowid = 1; }
      if( rc!=SQLITE_OK ) goto abort_due_to_error;
    }else
<SAME>",
    },
    Patch {
        name: "a transaction begins as its statement needs",
        after: "\ncase OP_Transaction: {",
        at: "    rc = sqlite3BtreeBeginTrans(pBt, pOp->p2, &iMeta);\n",
        put: "    rc = sqlite3TpBeginTrans(p, pBt, pOp->p2, &iMeta);\n",
    },
    // A statement that writes to an environment can fail because of a lock, and must then leave none of its changes. So
    // it needs a savepoint. A statement within another statement uses the outer statement's savepoint, and a blob
    // handle (a statement without text) makes only one change.
    Patch {
        name: "a writing statement has a savepoint",
        after: "\ncase OP_Transaction: {",
        at: "    if( p->usesStmtJournal\n",
        put: "    if( (p->usesStmtJournal || (db->nVdbeExec<=1 && p->zSql && sqlite3TpHandleIsOurs(pBt)))\n",
    },
    // At a savepoint a virtual table writes its pending changes, which is not wanted for the savepoints of the patch
    // above. A statement that writes to a virtual table has a savepoint in stock SQLite, too.
    Patch {
        name: "a statement's savepoint does not reach virtual tables",
        after: "\ncase OP_Transaction: {",
        at: "      rc = sqlite3VtabSavepoint(db, SAVEPOINT_BEGIN, p->iStatement-1);\n",
        put: "      rc = p->usesStmtJournal ? sqlite3VtabSavepoint(db, SAVEPOINT_BEGIN, p->iStatement-1) : SQLITE_OK;\n",
    },
    Patch {
        name: "the end of a statement's savepoint does not reach virtual tables",
        after: "\nstatic SQLITE_NOINLINE int vdbeCloseStatement(Vdbe *p, int eOp){\n",
        at: "  if( rc==SQLITE_OK ){\n    if( eOp==SAVEPOINT_ROLLBACK ){\n      rc = sqlite3VtabSavepoint(",
        put: "  if( rc==SQLITE_OK && p->usesStmtJournal ){\n    if( eOp==SAVEPOINT_ROLLBACK ){\n      rc = sqlite3VtabSavepoint(",
    },
    Patch {
        name: "an error of an environment has its own sentence",
        after: "\nabort_due_to_error:\n",
        at: "  if( p->zErrMsg==0 && rc!=SQLITE_IOERR_NOMEM ){\n",
        put: "  rc = sqlite3TpError(p, rc);\n<SAME>",
    },
    // The schema is read while another statement is prepared.
    Patch {
        name: "a schema whose reading cannot begin has its own sentence",
        after: "\nSQLITE_PRIVATE int sqlite3InitOne(sqlite3 *db, int iDb, char **pzErrMsg, u32 mFlags){\n",
        at: "      sqlite3SetString(pzErrMsg, db, sqlite3ErrStr(rc));\n",
        put: "<SAME>      rc = sqlite3TpInitError(db, pDb->pBt, rc, pzErrMsg);\n",
    },
    Patch {
        name: "a schema that cannot be read has its own sentence",
        after: "\nSQLITE_PRIVATE int sqlite3InitOne(sqlite3 *db, int iDb, char **pzErrMsg, u32 mFlags){\n",
        at: "    if( rc==SQLITE_OK ) rc = initData.rc;\n",
        put: "    if( rc!=SQLITE_OK && *pzErrMsg==0 && sqlite3TpHandleIsOurs(pDb->pBt) ) sqlite3SetString(pzErrMsg, db, sqlite3_errmsg(db));\n<SAME>",
    },
    Patch {
        name: "SELECT tp_version() names the library",
        after: "\n  static FuncDef aBuiltinFunc[] = {\n",
        at: "    DFUNCTION(sqlite_version,    0, 0, 0, versionFunc      ),\n",
        put: "<SAME>    DFUNCTION(tp_version,        0, 0, 0, tpVersionFunc    ),\n",
    },
    Patch {
        name: "a statement that a deadlock ended runs again",
        after: "\nSQLITE_API int sqlite3_step(sqlite3_stmt *pStmt){\n",
        at: "  sqlite3_mutex_enter(db->mutex);
  while( (rc = sqlite3Step(v))==SQLITE_SCHEMA
         && cnt++ < SQLITE_MAX_SCHEMA_RETRY ){
    int savedPc = v->pc;
",
        put: "  sqlite3_mutex_enter(db->mutex);
  TpStep tp;
  sqlite3TpStepBegins(v, &tp);
  while( (rc = sqlite3TpStep(v, &tp))==SQLITE_SCHEMA
         && cnt++ < SQLITE_MAX_SCHEMA_RETRY ){
    int savedPc = v->pc;
",
    },
    Patch {
        name: "an ATTACH that is refused has its own sentence",
        after: "    rc = sqlite3BtreeOpen(pVfs, zPath, db, &pNew->pBt, 0, flags);\n",
        at: "    db->nDb++;\n",
        put: "<SAME>    zErrDyn = sqlite3TpRefusal(db);\n",
    },
    Patch {
        name: "an opening that is refused has its own sentence",
        after: "\n  rc = sqlite3BtreeOpen(db->pVfs, zOpen, db, &db->aDb[0].pBt, 0,\n",
        at: "    sqlite3Error(db, rc);\n    goto opendb_out;\n",
        put: "    sqlite3TpOpenError(db, rc);\n    goto opendb_out;\n",
    },
    // This optimization copies cells of pages, which environments do not have.
    Patch {
        name: "INSERT .. SELECT copies row by row",
        after: "  int destHasUniqueIdx = 0;        /* True if pDest has a UNIQUE index */\n",
        at: "  assert( pSelect!=0 );\n",
        put: "<SAME>  for(i=0; i<db->nDb; i++){\n    if( sqlite3TpHandleIsOurs(db->aDb[i].pBt) ) return 0;\n  }\n",
    },
    Patch {
        name: "a backup knows the connection that it closes",
        after: "\nstruct sqlite3_backup {\n",
        at: "  int rc;                  /* Backup process error code */\n",
        put: "<SAME>  sqlite3 *pTp;            /* The connection to a copy of an environment, or NULL */\n",
    },
    Patch {
        name: "a backup of an environment copies a snapshot",
        after: "\nSQLITE_API sqlite3_backup *sqlite3_backup_init(\n  sqlite3* pDestDb, ",
        at: "  sqlite3_mutex_enter(pSrcDb->mutex);\n",
        put: "  if( pSrcDb!=pDestDb && sqlite3TpBackup(pDestDb, zDestDb, pSrcDb, zSrcDb, &p) ) return p;\n<SAME>",
    },
    Patch {
        name: "the end of a backup closes the copy of an environment",
        after: "\nSQLITE_API int sqlite3_backup_finish(sqlite3_backup *p){\n",
        at: "  pSrcDb = p->pSrcDb;\n",
        put: "<SAME>  sqlite3 *pTp = p->pTp;\n",
    },
    Patch {
        name: "the copy of an environment closes last",
        after: "\nSQLITE_API int sqlite3_backup_finish(sqlite3_backup *p){\n",
        at: "  sqlite3LeaveMutexAndCloseZombie(pSrcDb);\n",
        put: "<SAME>  if( pTp ) sqlite3_close(pTp);\n",
    },
    Patch {
        name: "VACUUM compacts the trees of an environment",
        after: "\nSQLITE_PRIVATE SQLITE_NOINLINE int sqlite3RunVacuum(\n",
        at: "  saved_openFlags = db->openFlags;\n",
        put: "  if( pOut==0 && sqlite3TpHandleIsOurs(db->aDb[iDb].pBt) ) return sqlite3TpVacuum(db->aDb[iDb].pBt);\n<SAME>",
    },
    // Stock SQLite copies the cells of pages here. For an environment INSERT is used, which must not name generated
    // columns.
    Patch {
        name: "VACUUM INTO names the columns",
        after: "\n  ** an \"INSERT INTO vacuum_db.xxx SELECT * FROM main.xxx;\" to copy\n",
        at: r#"  rc = execSqlF(db, pzErrMsg,
      "SELECT'INSERT INTO %s.'||quote(name)"
      "||' SELECT*FROM\"%w\".'||quote(name)"
      "FROM %s.sqlite_schema "
      "WHERE type='table'AND coalesce(rootpage,1)>0",
      zDbVacuum, zDbMain, zDbVacuum
  );
"#,
        put: r#"  if( sqlite3TpHandleIsOurs(pMain) || sqlite3TpHandleIsOurs(pTemp) ) rc = execSqlF(db, pzErrMsg,
      "SELECT'INSERT INTO %s.'||quote(name)||'('||c||')SELECT '||c||' FROM\"%w\".'||quote(name)"
      "FROM(SELECT name,(SELECT group_concat(format('\"%%w\"',x.name))"
      "FROM pragma_table_xinfo(s.name,'%s')x WHERE hidden=0)c "
      "FROM %s.sqlite_schema s WHERE type='table'AND coalesce(rootpage,1)>0)",
      zDbVacuum, zDbMain, zDbVacuum, zDbVacuum
  ); else
<SAME>"#,
    },
    Patch {
        name: "pragmas and file controls ask the environment",
        after: "\nSQLITE_API int sqlite3_file_control(sqlite3 *db, const char *zDbName, int op, void *pArg){\n",
        at: "    sqlite3BtreeEnter(pBtree);\n",
        put: "    if( sqlite3TpHandleIsOurs(pBtree) && sqlite3TpControl(pBtree, op, pArg, &rc) ){
      sqlite3_mutex_leave(db->mutex);
      return rc;
    }
<SAME>",
    },
    Patch {
        name: "sqlite3_serialize copies a snapshot of an environment",
        after: "\nSQLITE_API unsigned char *sqlite3_serialize(\n  sqlite3 *db,              /* The database connection */\n",
        at: "  pBt = db->aDb[iDb].pBt;\n",
        put: "<SAME>  if( sqlite3TpHandleIsOurs(pBt) ){ pOut = sqlite3TpSerialize(pBt, piSize, mFlags); goto serialize_out; }\n",
    },
    Patch {
        name: "sqlite3_interrupt ends a wait for a lock",
        after: "\nSQLITE_API void sqlite3_interrupt(sqlite3 *db){\n",
        at: "  AtomicStore(&db->u1.isInterrupted, 1);\n",
        put: "<SAME>  sqlite3TpInterrupt();\n",
    },
];
