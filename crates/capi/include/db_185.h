/* db_185.h: the same as db.h, under another name, for systems on which <db.h> is the header of a later Berkeley DB. */
#ifndef _DB_185_H_
#define _DB_185_H_

#include "db.h"

#endif /* _DB_185_H_ */
