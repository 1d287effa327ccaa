/* Copies of an environment. sqlite3_backup and sqlite3_serialize copy the pages of a file, and an environment is no
** file. So a second connection writes a snapshot to a temporary file (VACUUM INTO), and this file is copied. */

static Btree *tpBtree(sqlite3 *db, const char *zDb){
  int i = sqlite3FindDbName(db, zDb ? zDb : "main");
  return i>=0 && sqlite3TpHandleIsOurs(db->aDb[i].pBt) ? db->aDb[i].pBt : 0;
}
static const char *tpTempDirectory(void){
  const char *aVariable[] = { "SQLITE_TMPDIR", "TMPDIR" };
  const char *aPlace[] = { "/var/tmp", "/tmp" };
  int i;
  if( sqlite3_temp_directory ) return sqlite3_temp_directory;
  for(i=0; i<2; i++){
    const char *z = getenv(aVariable[i]);
    if( z && z[0] && access(z, W_OK|X_OK)==0 ) return z;
  }
  for(i=0; i<2; i++) if( access(aPlace[i], W_OK|X_OK)==0 ) return aPlace[i];
  return ".";
}
/* Writes a snapshot to a temporary file. Stores the file's name in *pzFile, or after an error the error's text. */
static int tpSnapshotFile(Btree *p, char **pzFile){
  sqlite3 *db = 0;
  u64 i;
  int rc;
  char *zSql, *zFile;
  sqlite3_randomness(sizeof(i), &i);
  zFile = sqlite3_mprintf("%s/libtp-%016llx.db", tpTempDirectory(), i);
  zSql = zFile ? sqlite3_mprintf("VACUUM INTO %Q", zFile) : 0;
  rc = zSql==0 ? SQLITE_NOMEM_BKPT
               : sqlite3_open_v2(TPH(p)->zName, &db, SQLITE_OPEN_READONLY, p->db->pVfs->zName);
  if( rc==SQLITE_OK ){
    /* VACUUM INTO accepts an existing empty file. The mode keeps other users from reading the copy. */
    int fd = open(zFile, O_CREAT|O_EXCL|O_WRONLY|O_CLOEXEC, 0600);
    if( fd>=0 ) close(fd); else rc = SQLITE_CANTOPEN_BKPT;
  }
  if( rc==SQLITE_OK ) rc = sqlite3_exec(db, zSql, 0, 0, 0);
  *pzFile = zFile;
  if( rc!=SQLITE_OK ){
    *pzFile = rc==SQLITE_CANTOPEN ? sqlite3_mprintf("%s cannot be created, so no copy was made: set SQLITE_TMPDIR to a directory with free space", zFile)
                                  : sqlite3_mprintf("%s", db ? sqlite3_errmsg(db) : sqlite3ErrStr(rc));
    if( zFile ) unlink(zFile);
    sqlite3_free(zFile);
  }
  sqlite3_free(zSql);
  sqlite3_close(db);
  return rc;
}

/* Begins a backup of an environment, through a connection to a temporary file, which sqlite3_backup_finish closes.
** Returns 0 if zSrc is a file: SQLite's own code then makes the backup. */
static int sqlite3TpBackup(sqlite3 *pDest, const char *zDest, sqlite3 *pSrc, const char *zSrc, sqlite3_backup **pp){
  Btree *p;
  sqlite3 *db = 0;
  char *zFile = 0;
  int rc;
  *pp = 0;
  if( tpBtree(pDest, zDest) ){
    sqlite3_mutex_enter(pDest->mutex);
    sqlite3ErrorWithMsg(pDest, SQLITE_ERROR, "sqlite3_backup does not write into an environment of libtp, and nothing was copied");
    sqlite3_mutex_leave(pDest->mutex);
    return 1;
  }
  sqlite3_mutex_enter(pSrc->mutex);
  p = tpBtree(pSrc, zSrc);
  rc = p ? tpSnapshotFile(p, &zFile) : SQLITE_OK;
  sqlite3_mutex_leave(pSrc->mutex);
  if( p==0 ) return 0;
  if( rc==SQLITE_OK ){
    rc = sqlite3_open_v2(zFile, &db, SQLITE_OPEN_READWRITE, pSrc->pVfs->zName);
    /* This read opens the file, which then stays open after its name is removed. */
    if( rc==SQLITE_OK ) rc = sqlite3_exec(db, "PRAGMA schema_version", 0, 0, 0);
    unlink(zFile);
  }
  if( rc==SQLITE_OK ) *pp = sqlite3_backup_init(pDest, zDest, db, "main");
  if( *pp ){
    (*pp)->pTp = db;
  }else{
    if( rc!=SQLITE_OK ){
      sqlite3_mutex_enter(pDest->mutex);
      sqlite3ErrorWithMsg(pDest, rc, "%s", db ? sqlite3_errmsg(db) : zFile ? zFile : sqlite3ErrStr(rc));
      sqlite3_mutex_leave(pDest->mutex);
    }
    sqlite3_close(db);
  }
  sqlite3_free(zFile);
  return 1;
}

/* Returns the bytes of an SQLite file with the records of an environment, or NULL after an error. */
static unsigned char *sqlite3TpSerialize(Btree *p, sqlite3_int64 *piSize, unsigned mFlags){
  unsigned char *a = 0;
  char *zFile = 0;
  struct stat st;
  int fd, rc = tpSnapshotFile(p, &zFile);
  fd = rc==SQLITE_OK ? open(zFile, O_RDONLY|O_CLOEXEC) : -1;
  if( rc==SQLITE_OK ) unlink(zFile);
  sqlite3_free(zFile);
  if( fd<0 ) return 0;
  if( fstat(fd, &st)==0 ){
    i64 n = st.st_size, at = 0;
    if( piSize ) *piSize = n;
    if( (mFlags & SQLITE_SERIALIZE_NOCOPY)==0 ) a = sqlite3_malloc64(n);
    while( a && at<n ){
      ssize_t got = read(fd, &a[at], n-at);
      if( got<=0 && (got==0 || errno!=EINTR) ){ sqlite3_free(a); a = 0; }else if( got>0 ) at += got;
    }
  }
  close(fd);
  return a;
}
