/* Records in the form of the Rust side: `count` keys and values of a table, each `stride` bytes after the previous. */
#ifndef PAIRS_H
#define PAIRS_H

#include <stddef.h>
#include <stdint.h>

/* Most tables of a database. */
#define TABLES_MAX 3

struct pairs {
	const char *keys;
	const char *values;
	size_t key_bytes;
	size_t value_bytes;
	size_t stride;
	size_t count;
	/* The number of the table, counted from zero. */
	int table;
};

/* A pair that was found; valid until the next call of its reader. */
struct pair {
	const void *key;
	const void *value;
	size_t key_bytes;
	size_t value_bytes;
};

static inline const char *key_of(const struct pairs *pairs, size_t i)
{
	return pairs->keys + i * pairs->stride;
}

static inline const char *value_of(const struct pairs *pairs, size_t i)
{
	return pairs->values + i * pairs->stride;
}

#endif
