/* db_185.h: the name under which programs find the interface of db 1.85 where <db.h> belongs to a later Berkeley DB. */
#ifndef _DB_185_H_
#define _DB_185_H_

#include "db.h"

#endif /* _DB_185_H_ */
