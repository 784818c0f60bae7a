// SPDX-License-Identifier: MIT
// The floor of a handshake: the primitives of a suite, by the tunnel's own liboqs, over bare TCP and nothing else.
//
//   bare_tcp keys FOLDER SIG
//   bare_tcp server FOLDER ADDRESS PORT KEM SIG mutual|server
//   bare_tcp client FOLDER ADDRESS PORT KEM SIG mutual|server COUNT LEAST LIMIT_S
//   bare_tcp wake-server ADDRESS PORT
//   bare_tcp wake-client ADDRESS PORT ROUNDS
//
// A handshake begins with connect(). The server makes a key pair and signs; the client verifies and encapsulates (and
// signs, where it is mutual); the server (verifies and) decapsulates and confirms: the client has read that at the end.
// No KDF, no MAC, no transcript, no encryption. What is signed has the tunnel's size. Where a wait can only be waited
// out, both ends sleep in the kernel. `wake`: the same small message waited for asleep and awake (see `ping`).
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

// What is used of liboqs 0.13 (src/kem/kem.h, src/sig/sig.h): its image holds the library without headers.
typedef struct {
	const char *name, *version;
	uint8_t level, ind_cca;
	size_t public_bytes, secret_bytes, ciphertext_bytes, shared_bytes;
} Kem;
typedef struct {
	const char *name, *version;
	uint8_t level, flags[3];
	size_t public_bytes, secret_bytes, signature_bytes;
} Sig;
void OQS_init(void);
const char *OQS_version(void);
Kem *OQS_KEM_new(const char *name);
int OQS_KEM_keypair(const Kem *kem, uint8_t *public, uint8_t *secret);
int OQS_KEM_encaps(const Kem *kem, uint8_t *ciphertext, uint8_t *shared, const uint8_t *public);
int OQS_KEM_decaps(const Kem *kem, uint8_t *shared, const uint8_t *ciphertext, const uint8_t *secret);
Sig *OQS_SIG_new(const char *name);
int OQS_SIG_keypair(const Sig *sig, uint8_t *public, uint8_t *secret);
int OQS_SIG_sign(const Sig *sig, uint8_t *signature, size_t *length, const uint8_t *message, size_t message_bytes,
                 const uint8_t *secret);
int OQS_SIG_verify(const Sig *sig, const uint8_t *message, size_t message_bytes, const uint8_t *signature, size_t length,
                   const uint8_t *public);

enum { SIGNED_BYTES = 64, PROOF_BYTES = 16 }; // of the key or the ciphertext; of the shared secret

static _Noreturn void fail(const char *what) {
	fprintf(stderr, "bare_tcp: %s%s%s\n", what, errno ? ": " : "", errno ? strerror(errno) : "");
	exit(1);
}

static uint64_t now_ns(void) {
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void *room(size_t bytes) {
	void *memory = calloc(1, bytes);
	if (!memory)
		fail("no memory");
	return memory;
}

// ---------------------------------------------------------------------------- TCP

#include "../tcp.h"

static int listening(const char *host, const char *port) {
	struct sockaddr_in address;
	const int fd = tcp(&address, host, port);
	if (bind(fd, (struct sockaddr *)&address, sizeof address) || listen(fd, 16))
		fail("cannot listen");
	puts("ready");
	fflush(stdout);
	return fd;
}

static int accepted(int listener) {
	const int one = 1;
	const int fd = accept(listener, NULL, NULL);
	if (fd < 0)
		fail("cannot accept");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	return fd;
}

static int connected(const char *host, const char *port) {
	struct sockaddr_in address;
	const int fd = tcp(&address, host, port);
	if (connect(fd, (struct sockaddr *)&address, sizeof address))
		fail("cannot connect");
	return fd;
}

static void take(int fd, void *into, size_t bytes) {
	if (bytes && recv(fd, into, bytes, MSG_WAITALL) != (ssize_t)bytes)
		fail("the other end went away");
}

static void give(int fd, struct iovec *parts, int count) {
	while (count > 0) {
		ssize_t sent = writev(fd, parts, count);
		if (sent < 0)
			fail("the other end went away");
		for (; count > 0 && (size_t)sent >= parts->iov_len; parts++, count--)
			sent -= (ssize_t)parts->iov_len;
		if (count > 0) {
			parts->iov_base = (char *)parts->iov_base + sent;
			parts->iov_len -= (size_t)sent;
		}
	}
}

// ---------------------------------------------------------------------------- one handshake

typedef struct {
	const Kem *kem;
	const Sig *sig;
	int mutual;
	uint8_t *secret, *theirs; // signing keys: mine, and the other end's public one
	uint8_t *public, *private, *ciphertext, *shared, *signature;
	uint32_t length; // of the signature
} End;

// Times of the server's primitives and a proof that both have the same secret.
typedef struct {
	uint64_t keygen_ns, crypto_ns;
	uint8_t proof[PROOF_BYTES];
} Confirmation;

static void file(const char *folder, const char *sig, const char *name, uint8_t *bytes, size_t count, int write) {
	char path[4096];
	snprintf(path, sizeof path, "%s/%s.%s", folder, sig, name);
	FILE *stream = fopen(path, write ? "wb" : "rb");
	if (!stream || (write ? fwrite(bytes, 1, count, stream) : fread(bytes, 1, count, stream)) != count || fclose(stream))
		fail(path);
}

static End end(const char *folder, const char *kem, const char *sig, const char *mine, const char *theirs, int mutual) {
	char name[64];
	End made = {.kem = OQS_KEM_new(kem), .sig = OQS_SIG_new(sig), .mutual = mutual};
	if (!made.kem || !made.sig)
		fail("this liboqs has no such algorithm");
	made.secret = room(made.sig->secret_bytes);
	made.theirs = room(made.sig->public_bytes);
	snprintf(name, sizeof name, "%s.secret", mine);
	file(folder, sig, name, made.secret, made.sig->secret_bytes, 0);
	snprintf(name, sizeof name, "%s.public", theirs);
	file(folder, sig, name, made.theirs, made.sig->public_bytes, 0);
	made.public = room(made.kem->public_bytes);
	made.private = room(made.kem->secret_bytes);
	made.ciphertext = room(made.kem->ciphertext_bytes);
	made.shared = room(made.kem->shared_bytes);
	made.signature = room(made.sig->signature_bytes);
	return made;
}

static void sign(End *end, const uint8_t *message, size_t bytes) {
	size_t length = end->sig->signature_bytes;
	if (OQS_SIG_sign(end->sig, end->signature, &length, message + bytes - SIGNED_BYTES, SIGNED_BYTES, end->secret))
		fail("signing failed");
	end->length = (uint32_t)length;
}

static void verify(const End *end, const uint8_t *message, size_t bytes) {
	if (OQS_SIG_verify(end->sig, message + bytes - SIGNED_BYTES, SIGNED_BYTES, end->signature, end->length, end->theirs))
		fail("a signature is wrong");
}

static void give_signed(int fd, End *end, uint8_t *message, size_t bytes, int is_signed) {
	struct iovec parts[] = {{message, bytes}, {&end->length, sizeof end->length}, {end->signature, end->length}};
	give(fd, parts, is_signed ? 3 : 1);
}

static void take_signed(int fd, End *end, uint8_t *message, size_t bytes, int is_signed) {
	take(fd, message, bytes);
	if (!is_signed)
		return;
	take(fd, &end->length, sizeof end->length);
	if (end->length > end->sig->signature_bytes)
		fail("a signature is too long");
	take(fd, end->signature, end->length);
}

static void answer(int fd, End *end) {
	Confirmation told;
	const uint64_t start_ns = now_ns();
	if (OQS_KEM_keypair(end->kem, end->public, end->private))
		fail("key generation failed");
	told.keygen_ns = now_ns() - start_ns;
	sign(end, end->public, end->kem->public_bytes);
	told.crypto_ns = now_ns() - start_ns;
	give_signed(fd, end, end->public, end->kem->public_bytes, 1);
	take_signed(fd, end, end->ciphertext, end->kem->ciphertext_bytes, end->mutual);
	const uint64_t again_ns = now_ns();
	if (end->mutual)
		verify(end, end->ciphertext, end->kem->ciphertext_bytes);
	if (OQS_KEM_decaps(end->kem, end->shared, end->ciphertext, end->private))
		fail("decapsulation failed");
	told.crypto_ns += now_ns() - again_ns;
	memcpy(told.proof, end->shared, sizeof told.proof);
	struct iovec part = {&told, sizeof told};
	give(fd, &part, 1);
}

static void serve(End *end, const char *host, const char *port) {
	const int listener = listening(host, port);
	for (;;) {
		const int fd = accepted(listener);
		answer(fd, end);
		// Wait for the client to go first: TIME_WAIT belongs to it, as in the tunnel's handshake.
		char byte;
		if (recv(fd, &byte, 1, 0) > 0)
			fail("the client said more than it should");
		close(fd);
	}
}

static void shake(End *end, const char *host, const char *port, int number) {
	Confirmation told;
	const uint64_t start_ns = now_ns();
	const int fd = connected(host, port);
	take_signed(fd, end, end->public, end->kem->public_bytes, 1);
	const uint64_t verify_ns = now_ns();
	verify(end, end->public, end->kem->public_bytes);
	if (OQS_KEM_encaps(end->kem, end->ciphertext, end->shared, end->public))
		fail("encapsulation failed");
	if (end->mutual)
		sign(end, end->ciphertext, end->kem->ciphertext_bytes);
	const uint64_t crypto_ns = now_ns() - verify_ns;
	give_signed(fd, end, end->ciphertext, end->kem->ciphertext_bytes, end->mutual);
	take(fd, &told, sizeof told);
	const uint64_t wall_ns = now_ns() - start_ns;
	if (memcmp(told.proof, end->shared, sizeof told.proof))
		fail("both ends have different secrets");
	printf("%s{\"wall_ms\": %.6f, \"crypto_ms\": %.6f, \"keygen_ms\": %.6f}", number ? ", " : "", (double)wall_ns / 1e6,
	       (double)(crypto_ns + told.crypto_ns) / 1e6, (double)told.keygen_ns / 1e6);
	close(fd);
}

// As many as the tunnel makes: `count`, or what fits the limit but at least `least`; none after twice the limit.
static void dial(End *end, const char *host, const char *port, int count, int least, double limit_s) {
	const struct timespec pause = {0, 2000000};
	const uint64_t begin_ns = now_ns();
	printf("{\"library\": \"liboqs %s\", \"handshakes\": [", OQS_version());
	for (int number = 0; number < count; number++) {
		const double spent_s = (double)(now_ns() - begin_ns) / 1e9;
		if ((spent_s >= limit_s && number >= least) || spent_s >= 2 * limit_s)
			break;
		shake(end, host, port, number);
		nanosleep(&pause, NULL);
	}
	puts("]}");
}

// ---------------------------------------------------------------------------- waking up

enum { WORK_NS = 200000, BLOCK = 100, ASLEEP = 'b', AWAKE = 's' };

// One byte, waited for asleep in the kernel or awake. Raises nothing: false at the end of the connection.
static int byte(int fd, char *into, char way) {
	ssize_t got;
	do {
		got = recv(fd, into, 1, way == AWAKE ? MSG_DONTWAIT : 0);
	} while (got < 0 && (errno == EAGAIN || errno == EINTR));
	return got == 1;
}

static void work(void) {
	for (const uint64_t end_ns = now_ns() + WORK_NS; now_ns() < end_ns;)
		continue;
}

static void echo(const char *host, const char *port) {
	const int fd = accepted(listening(host, port));
	char way = ASLEEP;
	while (byte(fd, &way, way)) {
		work();
		if (send(fd, &way, 1, MSG_NOSIGNAL) != 1)
			return;
	}
}

// One end works 0.2 ms while the other waits, by turns, as in a short handshake. A round trip holds one end's work and
// two waits. Both ends wait in the way that the last byte said, in blocks asleep, awake, awake, asleep.
static void ping(const char *host, const char *port, int rounds) {
	const char order[] = {ASLEEP, AWAKE, AWAKE, ASLEEP};
	const int fd = connected(host, port);
	printf("{\"rounds\": [");
	for (int number = 0; number < rounds * 4 * BLOCK; number++) {
		char way = order[number / BLOCK % 4], said = way;
		const uint64_t start_ns = now_ns();
		if (send(fd, &way, 1, MSG_NOSIGNAL) != 1 || !byte(fd, &said, way))
			fail("the other end went away");
		const uint64_t taken_ns = now_ns() - start_ns;
		// The first of a block was waited for in the way of the block before.
		if (number % BLOCK)
			printf("%s{\"asleep\": %s, \"waited_us\": %.3f}", number > 1 ? ", " : "", way == ASLEEP ? "true" : "false",
			       ((double)taken_ns - WORK_NS) / 1e3);
		work();
	}
	puts("]}");
}

static void keys(const char *folder, const char *name) {
	const Sig *sig = OQS_SIG_new(name);
	if (!sig)
		fail("this liboqs has no such signature");
	uint8_t *public = room(sig->public_bytes), *secret = room(sig->secret_bytes);
	for (int place = 0; place < 2; place++) {
		if (OQS_SIG_keypair(sig, public, secret))
			fail("key generation failed");
		file(folder, name, place ? "client.public" : "server.public", public, sig->public_bytes, 1);
		file(folder, name, place ? "client.secret" : "server.secret", secret, sig->secret_bytes, 1);
	}
}

int main(int argc, char **argv) {
	const char *verb = argc > 1 ? argv[1] : "";
	OQS_init();
	errno = 0;
	if (!strcmp(verb, "keys") && argc == 4) {
		keys(argv[2], argv[3]);
	} else if (!strcmp(verb, "server") && argc == 8) {
		End mine = end(argv[2], argv[5], argv[6], "server", "client", !strcmp(argv[7], "mutual"));
		serve(&mine, argv[3], argv[4]);
	} else if (!strcmp(verb, "client") && argc == 11) {
		End mine = end(argv[2], argv[5], argv[6], "client", "server", !strcmp(argv[7], "mutual"));
		dial(&mine, argv[3], argv[4], atoi(argv[8]), atoi(argv[9]), atof(argv[10]));
	} else if (!strcmp(verb, "wake-server") && argc == 4) {
		echo(argv[2], argv[3]);
	} else if (!strcmp(verb, "wake-client") && argc == 5) {
		ping(argv[2], argv[3], atoi(argv[4]));
	} else {
		fail("usage: keys FOLDER SIG | server|client FOLDER ADDRESS PORT KEM SIG mutual|server [COUNT LEAST LIMIT_S] | "
		     "wake-server ADDRESS PORT | wake-client ADDRESS PORT ROUNDS");
	}
	return 0;
}
