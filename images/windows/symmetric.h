// SPDX-License-Identifier: MIT
// SHA-256 (FIPS 180-4), SHAKE-256 (FIPS 202) and the AES-256-CTR DRBG of NIST's submission kits (SP 800-90A
// §10.2.1 without derivation function): what known answers are made of. For the self-test alone: not constant-time.
#ifndef SYMMETRIC_H
#define SYMMETRIC_H
#include <stddef.h>
#include <stdint.h>

#define SEED_BYTES 48

typedef struct {
	uint32_t state[8];
	uint8_t block[64];
	size_t used;
	uint64_t length;
} Sha256;

void sha256_start(Sha256 *hash);
void sha256_add(Sha256 *hash, const void *data, size_t length);
void sha256_end(Sha256 *hash, uint8_t digest[32]);

typedef struct {
	uint64_t lanes[25];
	size_t at;
} Shake256;

// Absorb `input`, shorter than one block of 136 bytes, and end the input.
void shake256_start(Shake256 *shake, const uint8_t *input, size_t length);
void shake256_read(Shake256 *shake, uint8_t *out, size_t length);

typedef struct {
	uint8_t round_keys[240];
	uint8_t key[32];
	uint8_t counter[16];
} Drbg;

void drbg_start(Drbg *drbg, const uint8_t seed[SEED_BYTES]);
void drbg_read(Drbg *drbg, uint8_t *out, size_t length);
#endif
