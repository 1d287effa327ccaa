/* Pairs in the form that Rust passes: `count` keys and values of a table, each key and value `stride` bytes after the previous one. */
#ifndef PAIRS_H
#define PAIRS_H

#include <stddef.h>
#include <stdint.h>

/* Largest number of tables of a database. */
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

/* A pair that a reader has found. It is valid until the next call of the reader. */
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
