/* The second B-tree layer: the functions that SQLite's other source calls, and the functions in Rust that the shim
** calls (src/door.rs).
**
** A B-tree handle whose pTp is set belongs to an environment. In all other respects it is a stock handle of an empty
** :memory: database, the companion. SQLite's own functions use the companion for pagers, schemas in memory, page sizes
** and caches. For a handle without pTp, the shim calls the stock functions. */
typedef struct TpConn TpConn;                   /* A connection; Rust owns its memory */
typedef struct TpHandle TpHandle;               /* Btree.pTp */
typedef struct TpPlace TpPlace;                 /* BtCursor.pTp */
typedef struct TpField TpField;
typedef struct TpStep TpStep;
struct Vdbe;

struct TpHandle {
  TpConn *pConn;
  const char *zName;                            /* From sqlite3_create_filename */
  u8 isReadOnly;
  u8 isWal;                                     /* The program has set journal_mode to WAL */
  u8 eSync;                                     /* PAGER_SYNCHRONOUS_* */
};

/* For C, a cursor is a number in its connection: C's only pointer to Rust's memory is TpConn. */
struct TpPlace {
  TpConn *pConn;
  u32 iCursor;
  u32 iRoot;
  KeyInfo *pKeyInfo;                            /* NULL for a table of rowids */
  TpField *aField;                              /* Room for the fields of a key */
  u8 *aRow; u32 nRow;                           /* The row that sqlite3BtreeTransferRow has copied */
};

/* A value of a key. src/arguments.rs has the same struct (Field). */
struct TpField {
  int eType;                                    /* 0 NULL, 1 integer, 2 real, 3 text, 4 blob */
  int nZero;                                    /* Number of zero bytes that follow z */
  i64 i;
  double r;
  const u8 *z;
  size_t n;
};

/* State at the beginning of a sqlite3_step. A part of the state is restored before the statement runs again. */
struct TpStep { i64 iLastRowid; i64 nTotalChange; i64 nChange; int nAgain; u8 isFresh; u8 wasAuto; };

#define TPH(p) ((TpHandle*)(p)->pTp)
#define TPP(p) ((TpPlace*)(p)->pTp)

static int sqlite3TpHandleIsOurs(Btree*);
static int sqlite3TpIsOurs(BtCursor*);
static int sqlite3TpNewRowid(BtCursor*, i64*);
static int sqlite3TpBeginTrans(struct Vdbe*, Btree*, int, int*);
static int sqlite3TpError(struct Vdbe*, int);
static void sqlite3TpOpenError(sqlite3*, int);
static char *sqlite3TpRefusal(sqlite3*);
static void tpVersionFunc(sqlite3_context*, int, sqlite3_value**);
static void sqlite3TpStepBegins(struct Vdbe*, TpStep*);
static int sqlite3TpStep(struct Vdbe*, TpStep*);
static void sqlite3TpInterrupt(void);
static int sqlite3TpControl(Btree*, int, void*, int*);
static int sqlite3TpVacuum(Btree*);
static void sqlite3TpForgetAll(sqlite3*);
static void sqlite3TpCannotReplay(sqlite3*);
static int sqlite3TpBackup(sqlite3*, const char*, sqlite3*, const char*, sqlite3_backup**);
static unsigned char *sqlite3TpSerialize(Btree*, sqlite3_int64*, unsigned);

/* The ways to begin a transaction. src/session.rs has the same numbers (BeginMode). */
#define TP_READ       0
#define TP_WRITE      1                         /* A statement that writes, in a transaction or outside of one */
#define TP_IMMEDIATE  2
#define TP_EXCLUSIVE  3

/* Calls that can fail return a code of SQLite. After an error, tpsql_sentence returns its text. */
extern int tpsql_open(const char *zPath, int isReadOnly, int mayCreate, int nWaitMillis, TpConn **pp);
extern int tpsql_refusal(int *pCode, const char **pz);          /* The error of this thread's last tpsql_open or tpsql_is_chosen */
extern void tpsql_forget_refusal(void);
extern int tpsql_is_chosen(const char *zPath);                  /* Whether LIBTP_SQLITE names the path; -1: the variable is invalid */
extern int tpsql_is_removed(TpConn*);
extern void tpsql_close(TpConn*);
extern int tpsql_sentence(TpConn*, int rc, int *pCode, const char **pz); /* Returns the text's length; 0: there is no text for rc */
extern void tpsql_settings(TpConn*, int isDurable, int nWaitMillis);
extern void tpsql_cancel(void);                 /* Ends all lock waits of this process */
extern void tpsql_heed(TpConn*);                /* Lets the connection wait again, for the rest of its time limit */
extern void tpsql_heeded(TpConn*);              /* Gives the next wait the whole time limit */
extern int tpsql_failed_before(TpConn*);        /* Whether the last error is an earlier error that a cursor returns again */
extern int tpsql_state(TpConn*);
extern int tpsql_begin(TpConn*, int eHow);
extern int tpsql_prepare(TpConn*);              /* Before a commit: the last changes of the transaction, which may fail */
extern int tpsql_commit(TpConn*, int keepsReading);
extern int tpsql_has_expired(TpConn*);          /* Whether an open SELECT could not continue after a transaction; the call resets this */
extern int tpsql_is_doomed(TpConn*);
extern int tpsql_roll_back(TpConn*, int keepsReading);
extern int tpsql_was_victim(TpConn*);
extern void tpsql_replays(TpConn*);             /* Before a rollback: the transaction's statements will run again */
extern void tpsql_doom(TpConn*, int isReported, const char *zCause); /* Ends the transaction; !isReported: the next call returns BUSY_SNAPSHOT */
extern int tpsql_savepoints(TpConn*, int nSavepoint);
extern int tpsql_savepoint_end(TpConn*, int isRollback, int iSavepoint, int isStatement);
extern void tpsql_trip(TpConn*, int rc, int isWriteOnly);
extern u32 tpsql_meta(TpConn*, int iMeta);
extern int tpsql_meta_put(TpConn*, int iMeta, u32 v);
extern u32 tpsql_version(TpConn*);
extern i64 tpsql_bytes(TpConn*);
extern int tpsql_compact(TpConn*);
extern int tpsql_setting(TpConn*, const char *zName, const char *zValue, const char **pz, int *pn); /* Stores the setting's value, or the text of an error */
extern int tpsql_create(TpConn*, u32 *piRoot);
extern int tpsql_clear(TpConn*, u32 iRoot, int isDrop, i64 *pnChange);
extern int tpsql_count(TpConn*, u32 iRoot, i64 *pn);
extern int tpsql_cursor(TpConn*, u32 iRoot, int isWrite, const u8 *aColumn, int nColumn, u32 *piCursor);
extern void tpsql_cursor_close(TpConn*, u32);
extern void tpsql_cursor_clear(TpConn*, u32);
extern void tpsql_pin(TpConn*, u32, int isPinned);
extern void tpsql_blob(TpConn*, u32);
extern int tpsql_first(TpConn*, u32, int *pIsEmpty);
extern int tpsql_last(TpConn*, u32, int *pIsEmpty);
extern int tpsql_next(TpConn*, u32);                            /* SQLITE_DONE at the end */
extern int tpsql_previous(TpConn*, u32);
extern int tpsql_eof(TpConn*, u32, int *pIsEnd);
extern void tpsql_cursor_fail(TpConn*, u32, int rc);           /* The next call that can fail returns rc */
extern int tpsql_has_moved(TpConn*, u32);
extern int tpsql_restore(TpConn*, u32, int *pDiffers);
extern int tpsql_seek_row(TpConn*, u32, i64 iRow, int *pRes);
extern int tpsql_seek_key(TpConn*, u32, const TpField*, int nField, int isWhole, int eBias, int isEqual, u8 *pEqSeen, int *pRes);
extern i64 tpsql_rowid(TpConn*, u32);
extern const u8 *tpsql_value(TpConn*, u32, u32 *pn);
extern int tpsql_put_row(TpConn*, u32, i64 iRow, const void*, int n, int nZero);
extern int tpsql_put_key(TpConn*, u32, const TpField*, int nField, const void*, i64 n);
extern int tpsql_put_part(TpConn*, u32, u32 iOffset, u32 n, const void*);
extern int tpsql_delete(TpConn*, u32);
extern int tpsql_new_rowid(TpConn*, u32, i64*);
