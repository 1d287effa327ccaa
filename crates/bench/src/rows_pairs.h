/* Records as the Rust side has them: `count` keys and values, each `stride` bytes after the one before. */
#ifndef ROWS_PAIRS_H
#define ROWS_PAIRS_H

#include <stddef.h>

struct pairs {
	const char *keys;
	const char *values;
	size_t key_bytes;
	size_t value_bytes;
	size_t stride;
	size_t count;
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
