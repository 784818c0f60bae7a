// SPDX-License-Identifier: MIT
// Known answers of every algorithm in liboqs.dll: vector 0 of each NIST response file, made again and hashed.
// The same test as pqtunnel.kat.oqs_kats; expected.h is written from the same answers. Prints one line an algorithm.
#include "expected.h"
#include "symmetric.h"
#include <oqs/oqs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MESSAGE_BYTES 33
#define SALT_BYTES 40

static Drbg drbg;
static Shake256 shake;

static void from_drbg(uint8_t *out, size_t length) { drbg_read(&drbg, out, length); }
static void from_shake(uint8_t *out, size_t length) { shake256_read(&shake, out, length); }

static void hqc_stream(const uint8_t seed[SEED_BYTES]) {
	uint8_t input[SEED_BYTES + 1];
	memcpy(input, seed, SEED_BYTES);
	input[SEED_BYTES] = 1;
	shake256_start(&shake, input, sizeof input);
}

static void line(Sha256 *hash, const char *name, const uint8_t *value, size_t length) {
	char text[3];
	sha256_add(hash, name, strlen(name));
	sha256_add(hash, " = ", 3);
	for (size_t i = 0; i < length; i++) {
		snprintf(text, sizeof text, "%02X", value[i]);
		sha256_add(hash, text, 2);
	}
	sha256_add(hash, "\n", 1);
}

static void count(Sha256 *hash, const char *name, size_t value) {
	char text[64];
	sha256_add(hash, text, (size_t)snprintf(text, sizeof text, "%s = %zu\n", name, value));
}

static int verdict(const char *token, Sha256 *hash, const char *expected, int is_consistent) {
	uint8_t digest[32];
	char text[65];
	sha256_end(hash, digest);
	for (int i = 0; i < 32; i++)
		snprintf(text + 2 * i, 3, "%02x", digest[i]);
	const int is_same = is_consistent && !strcmp(text, expected);
	printf("[%s] %s %s\n", is_same ? "x" : " ", token, text);
	return is_same;
}

static uint8_t *room(size_t length) {
	uint8_t *memory = calloc(1, length ? length : 1);
	if (!memory) {
		puts("error: out of memory");
		exit(2);
	}
	return memory;
}

static int check_kem(const Answer *answer) {
	uint8_t entropy[SEED_BYTES], seed[SEED_BYTES];
	const int is_hqc = !strncmp(answer->token, "hqc", 3);
	OQS_KEM *kem = OQS_KEM_new(answer->name);
	if (!kem) {
		printf("[ ] %s is not in this library\n", answer->token);
		return 0;
	}
	for (int i = 0; i < SEED_BYTES; i++)
		entropy[i] = (uint8_t)i;
	if (is_hqc) {
		hqc_stream(entropy);
		shake256_read(&shake, seed, SEED_BYTES);
		hqc_stream(seed);
		OQS_randombytes_custom_algorithm(from_shake);
	} else {
		drbg_start(&drbg, entropy);
		drbg_read(&drbg, seed, SEED_BYTES);
		drbg_start(&drbg, seed);
		OQS_randombytes_custom_algorithm(from_drbg);
	}
	uint8_t *pk = room(kem->length_public_key), *sk = room(kem->length_secret_key);
	uint8_t *ct = room(kem->length_ciphertext), *ss = room(kem->length_shared_secret);
	uint8_t *again = room(kem->length_shared_secret);
	const int done = OQS_KEM_keypair(kem, pk, sk) == OQS_SUCCESS && OQS_KEM_encaps(kem, ct, ss, pk) == OQS_SUCCESS
	                 && OQS_KEM_decaps(kem, again, ct, sk) == OQS_SUCCESS
	                 && !memcmp(ss, again, kem->length_shared_secret);
	Sha256 hash;
	sha256_start(&hash);
	count(&hash, "count", 0);
	line(&hash, "seed", seed, SEED_BYTES);
	line(&hash, "pk", pk, kem->length_public_key);
	line(&hash, "sk", sk, kem->length_secret_key);
	line(&hash, "ct", ct, kem->length_ciphertext);
	line(&hash, "ss", ss, kem->length_shared_secret);
	free(pk), free(sk), free(ct), free(ss), free(again);
	OQS_KEM_free(kem);
	return verdict(answer->token, &hash, answer->sha256, done);
}

// The combined form of the response files; Falcon's puts length and salt first.
static size_t combined(const char *token, const uint8_t *signature, size_t length, const uint8_t *message, uint8_t *out) {
	if (strncmp(token, "falcon", 6)) {
		memcpy(out, signature, length);
		memcpy(out + length, message, MESSAGE_BYTES);
		return length + MESSAGE_BYTES;
	}
	uint8_t *at = out;
	*at++ = (uint8_t)((length - SALT_BYTES) >> 8);
	*at++ = (uint8_t)(length - SALT_BYTES);
	memcpy(at, signature + 1, SALT_BYTES);
	memcpy(at + SALT_BYTES, message, MESSAGE_BYTES);
	at += SALT_BYTES + MESSAGE_BYTES;
	*at++ = strcmp(token, "falcon512") ? 0x2a : 0x29;
	memcpy(at, signature + 1 + SALT_BYTES, length - 1 - SALT_BYTES);
	return (size_t)(at - out) + length - 1 - SALT_BYTES;
}

static int check_sig(const Answer *answer) {
	uint8_t entropy[SEED_BYTES], seed[SEED_BYTES], message[MESSAGE_BYTES];
	OQS_SIG *sig = OQS_SIG_new(answer->name);
	if (!sig) {
		printf("[ ] %s is not in this library\n", answer->token);
		return 0;
	}
	for (int i = 0; i < SEED_BYTES; i++)
		entropy[i] = (uint8_t)i;
	drbg_start(&drbg, entropy);
	drbg_read(&drbg, seed, SEED_BYTES);
	drbg_read(&drbg, message, MESSAGE_BYTES);
	drbg_start(&drbg, seed);
	OQS_randombytes_custom_algorithm(from_drbg);
	uint8_t *pk = room(sig->length_public_key), *sk = room(sig->length_secret_key);
	uint8_t *signature = room(sig->length_signature), *all = room(sig->length_signature + MESSAGE_BYTES + 8);
	size_t length = 0;
	int done = OQS_SIG_keypair(sig, pk, sk) == OQS_SUCCESS
	           && OQS_SIG_sign(sig, signature, &length, message, MESSAGE_BYTES, sk) == OQS_SUCCESS
	           && OQS_SIG_verify(sig, message, MESSAGE_BYTES, signature, length, pk) == OQS_SUCCESS;
	Sha256 hash;
	sha256_start(&hash);
	count(&hash, "count", 0);
	line(&hash, "seed", seed, SEED_BYTES);
	count(&hash, "mlen", MESSAGE_BYTES);
	line(&hash, "msg", message, MESSAGE_BYTES);
	line(&hash, "pk", pk, sig->length_public_key);
	line(&hash, "sk", sk, sig->length_secret_key);
	const size_t total = done ? combined(answer->token, signature, length, message, all) : 0;
	count(&hash, "smlen", total);
	line(&hash, "sm", all, total);
	message[0] ^= 1;
	done = done && OQS_SIG_verify(sig, message, MESSAGE_BYTES, signature, length, pk) != OQS_SUCCESS;
	free(pk), free(sk), free(signature), free(all);
	OQS_SIG_free(sig);
	return verdict(answer->token, &hash, answer->sha256, done);
}

int main(void) {
	int failed = 0;
	OQS_init();
	for (size_t i = 0; i < sizeof KEM_ANSWERS / sizeof *KEM_ANSWERS; i++)
		failed += !check_kem(&KEM_ANSWERS[i]);
	for (size_t i = 0; i < sizeof SIG_ANSWERS / sizeof *SIG_ANSWERS; i++)
		failed += !check_sig(&SIG_ANSWERS[i]);
	OQS_destroy();
	printf("liboqs %s: %s\n", OQS_version(), failed ? "known answers differ" : "all known answers reproduced");
	return failed != 0;
}
