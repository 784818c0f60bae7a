// SPDX-License-Identifier: MIT
#include "symmetric.h"
#include <string.h>

// --- SHA-256 ---------------------------------------------------------------------------------------------------

// Round constants and initial state are the first 32 bits of the fractional parts of the cube and square roots of
// the first primes (FIPS 180-4 §4.2.2, §5.3.3): found here by integer root, so that no table can be mistyped.
static uint32_t root_fraction(uint32_t prime, int degree) {
	// floor(prime^(1/degree) * 2^32) by bisection in 128-bit integers, its low 32 bits.
	unsigned __int128 low = 0, high = (unsigned __int128)1 << 37;
	while (high - low > 1) {
		const unsigned __int128 middle = (low + high) / 2;
		int is_below;
		if (degree == 2) {
			is_below = middle * middle <= ((unsigned __int128)prime << 64);
		} else {
			// middle^3 <= prime * 2^96, divided by middle to stay below 128 bits.
			const unsigned __int128 square = middle * middle;
			is_below = square <= (((unsigned __int128)prime << 96) / middle);
		}
		if (is_below)
			low = middle;
		else
			high = middle;
	}
	return (uint32_t)low;
}

static uint32_t round_constant[64], initial_state[8];

static void find_constants(void) {
	uint32_t number = 2;
	for (int found = 0; found < 64; number++) {
		int is_prime = 1;
		for (uint32_t divisor = 2; divisor * divisor <= number; divisor++)
			is_prime &= number % divisor != 0;
		if (!is_prime)
			continue;
		round_constant[found] = root_fraction(number, 3);
		if (found < 8)
			initial_state[found] = root_fraction(number, 2);
		found++;
	}
}

static uint32_t ror(uint32_t value, int by) { return value >> by | value << (32 - by); }

static void sha256_block(Sha256 *hash) {
	uint32_t w[64], s[8];
	for (int i = 0; i < 16; i++)
		w[i] = (uint32_t)hash->block[4 * i] << 24 | (uint32_t)hash->block[4 * i + 1] << 16
		       | (uint32_t)hash->block[4 * i + 2] << 8 | hash->block[4 * i + 3];
	for (int i = 16; i < 64; i++) {
		const uint32_t a = ror(w[i - 15], 7) ^ ror(w[i - 15], 18) ^ w[i - 15] >> 3;
		const uint32_t b = ror(w[i - 2], 17) ^ ror(w[i - 2], 19) ^ w[i - 2] >> 10;
		w[i] = w[i - 16] + a + w[i - 7] + b;
	}
	memcpy(s, hash->state, sizeof s);
	for (int i = 0; i < 64; i++) {
		const uint32_t e = ror(s[4], 6) ^ ror(s[4], 11) ^ ror(s[4], 25);
		const uint32_t first = s[7] + e + ((s[4] & s[5]) ^ (~s[4] & s[6])) + round_constant[i] + w[i];
		const uint32_t a = ror(s[0], 2) ^ ror(s[0], 13) ^ ror(s[0], 22);
		const uint32_t second = a + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
		memmove(s + 1, s, 7 * sizeof *s);
		s[4] += first;
		s[0] = first + second;
	}
	for (int i = 0; i < 8; i++)
		hash->state[i] += s[i];
}

void sha256_start(Sha256 *hash) {
	if (round_constant[0] == 0)
		find_constants();
	memset(hash, 0, sizeof *hash);
	memcpy(hash->state, initial_state, sizeof initial_state);
}

void sha256_add(Sha256 *hash, const void *data, size_t length) {
	const uint8_t *bytes = data;
	hash->length += length;
	for (size_t i = 0; i < length; i++) {
		hash->block[hash->used++] = bytes[i];
		if (hash->used == 64) {
			sha256_block(hash);
			hash->used = 0;
		}
	}
}

void sha256_end(Sha256 *hash, uint8_t digest[32]) {
	const uint64_t bits = hash->length * 8;
	const uint8_t one = 0x80, zero = 0;
	sha256_add(hash, &one, 1);
	while (hash->used != 56)
		sha256_add(hash, &zero, 1);
	for (int i = 7; i >= 0; i--) {
		const uint8_t byte = (uint8_t)(bits >> 8 * i);
		sha256_add(hash, &byte, 1);
	}
	for (int i = 0; i < 32; i++)
		digest[i] = (uint8_t)(hash->state[i / 4] >> (24 - 8 * (i % 4)));
}

// --- SHAKE-256 -------------------------------------------------------------------------------------------------

#define RATE 136

static uint64_t rol(uint64_t value, int by) { return by ? value << by | value >> (64 - by) : value; }

static void keccak(uint64_t a[25]) {
	uint8_t lfsr = 1;
	for (int round = 0; round < 24; round++) {
		uint64_t column[5], moved;
		for (int x = 0; x < 5; x++)
			column[x] = a[x] ^ a[x + 5] ^ a[x + 10] ^ a[x + 15] ^ a[x + 20];
		for (int x = 0; x < 5; x++)
			for (int y = 0; y < 25; y += 5)
				a[x + y] ^= column[(x + 4) % 5] ^ rol(column[(x + 1) % 5], 1);
		moved = a[1];
		for (int t = 0, x = 1, y = 0; t < 24; t++) { // rho and pi in one walk (FIPS 202 §3.2.2, §3.2.3)
			const int next = (2 * x + 3 * y) % 5;
			x = y;
			y = next;
			const uint64_t kept = a[x + 5 * y];
			a[x + 5 * y] = rol(moved, (t + 1) * (t + 2) / 2 % 64);
			moved = kept;
		}
		for (int y = 0; y < 25; y += 5) {
			uint64_t row[5];
			memcpy(row, a + y, sizeof row);
			for (int x = 0; x < 5; x++)
				a[x + y] = row[x] ^ (~row[(x + 1) % 5] & row[(x + 2) % 5]);
		}
		for (int j = 0; j < 7; j++) { // round constants from the LFSR of §3.2.5
			if (lfsr & 1)
				a[0] ^= (uint64_t)1 << ((1 << j) - 1);
			lfsr = (uint8_t)(lfsr << 1 ^ (lfsr & 0x80 ? 0x71 : 0));
		}
	}
}

static void absorb(Shake256 *shake, size_t at, uint8_t byte) { shake->lanes[at / 8] ^= (uint64_t)byte << 8 * (at % 8); }

void shake256_start(Shake256 *shake, const uint8_t *input, size_t length) {
	memset(shake, 0, sizeof *shake);
	for (size_t i = 0; i < length; i++)
		absorb(shake, i, input[i]);
	absorb(shake, length, 0x1f);
	absorb(shake, RATE - 1, 0x80);
	keccak(shake->lanes);
}

void shake256_read(Shake256 *shake, uint8_t *out, size_t length) {
	for (size_t i = 0; i < length; i++) {
		if (shake->at == RATE) {
			keccak(shake->lanes);
			shake->at = 0;
		}
		out[i] = (uint8_t)(shake->lanes[shake->at / 8] >> 8 * (shake->at % 8));
		shake->at++;
	}
}

// --- AES-256-CTR DRBG --------------------------------------------------------------------------------------------

static uint8_t sbox[256];

static uint8_t doubled(uint8_t value) { return (uint8_t)(value << 1 ^ (value & 0x80 ? 0x1b : 0)); }

static void find_sbox(void) {
	uint8_t p = 1, q = 1; // q = 1/p in GF(2^8), both walking through all of it (FIPS 197 §5.1.1)
	do {
		p = (uint8_t)(p ^ doubled(p));
		q ^= (uint8_t)(q << 1);
		q ^= (uint8_t)(q << 2);
		q ^= (uint8_t)(q << 4);
		if (q & 0x80)
			q ^= 0x09;
		uint8_t mixed = q;
		for (int i = 1; i < 5; i++)
			mixed ^= (uint8_t)(q << i | q >> (8 - i));
		sbox[p] = mixed ^ 0x63;
	} while (p != 1);
	sbox[0] = 0x63;
}

static void expand(Drbg *drbg) {
	uint8_t *w = drbg->round_keys, rcon = 1;
	if (sbox[0] == 0)
		find_sbox();
	memcpy(w, drbg->key, 32);
	for (int i = 32; i < 240; i += 4) {
		uint8_t t[4];
		memcpy(t, w + i - 4, 4);
		if (i % 32 == 0) {
			const uint8_t first = t[0];
			t[0] = sbox[t[1]] ^ rcon;
			t[1] = sbox[t[2]];
			t[2] = sbox[t[3]];
			t[3] = sbox[first];
			rcon = doubled(rcon);
		} else if (i % 32 == 16) {
			for (int j = 0; j < 4; j++)
				t[j] = sbox[t[j]];
		}
		for (int j = 0; j < 4; j++)
			w[i + j] = w[i + j - 32] ^ t[j];
	}
}

static void encrypt(const Drbg *drbg, uint8_t s[16]) {
	for (int j = 0; j < 16; j++)
		s[j] ^= drbg->round_keys[j];
	for (int round = 1; round <= 14; round++) {
		uint8_t t[16];
		for (int j = 0; j < 16; j++)
			t[j] = sbox[s[(j + 4 * (j % 4)) % 16]];
		for (int c = 0; c < 16; c += 4) {
			const uint8_t all = t[c] ^ t[c + 1] ^ t[c + 2] ^ t[c + 3];
			for (int j = 0; j < 4; j++)
				s[c + j] = round == 14 ? t[c + j] : (uint8_t)(t[c + j] ^ all ^ doubled(t[c + j] ^ t[c + (j + 1) % 4]));
		}
		for (int j = 0; j < 16; j++)
			s[j] ^= drbg->round_keys[16 * round + j];
	}
}

static void next_block(Drbg *drbg, uint8_t out[16]) {
	for (int j = 15; j >= 0 && ++drbg->counter[j] == 0; j--)
		continue;
	memcpy(out, drbg->counter, 16);
	encrypt(drbg, out);
}

static void update(Drbg *drbg, const uint8_t *provided) {
	uint8_t fresh[SEED_BYTES];
	for (int i = 0; i < SEED_BYTES; i += 16)
		next_block(drbg, fresh + i);
	for (int i = 0; provided && i < SEED_BYTES; i++)
		fresh[i] ^= provided[i];
	memcpy(drbg->key, fresh, 32);
	memcpy(drbg->counter, fresh + 32, 16);
	expand(drbg);
}

void drbg_start(Drbg *drbg, const uint8_t seed[SEED_BYTES]) {
	memset(drbg, 0, sizeof *drbg);
	expand(drbg);
	update(drbg, seed);
}

void drbg_read(Drbg *drbg, uint8_t *out, size_t length) {
	for (size_t done = 0; done < length; done += 16) {
		uint8_t block[16];
		next_block(drbg, block);
		memcpy(out + done, block, length - done < 16 ? length - done : 16);
	}
	update(drbg, NULL);
}
