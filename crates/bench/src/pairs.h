/* Records as the Rust side has them: `count` keys and values of a table, each `stride` bytes after the one before. */
#ifndef PAIRS_H
#define PAIRS_H

#include <stddef.h>
#include <stdint.h>

/* A database has one to so many tables. */
#define TABLES_MAX 3

struct pairs {
	const char *keys;
	const char *values;
	size_t key_bytes;
	size_t value_bytes;
	size_t stride;
	size_t count;
	/* Where they go, from zero on. */
	int table;
};

/* What was found; it is there until its reader is asked again. */
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
