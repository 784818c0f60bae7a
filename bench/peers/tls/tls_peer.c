// SPDX-License-Identifier: MIT
// TLS 1.3 handshakes between two long-lived processes, timed at the client, with OpenSSL's own library.
//
//   tls_peer server FOLDER ADDRESS PORT mutual|server
//   tls_peer client FOLDER ADDRESS PORT mutual|server COUNT
//
// Group MLKEM768 alone, signatures mldsa65 alone, no tickets, no resumption. Each end's certificate is self-signed
// and is itself the other end's trust anchor: the shortest chain there is. A handshake begins with connect().
// `finished`: SSL_connect returned. `confirmed`: the first byte that the server sends after its SSL_accept came,
// which is when the client knows that the server accepted it.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static void fail(const char *what) {
	fprintf(stderr, "tls_peer: %s\n", what);
	ERR_print_errors_fp(stderr);
	exit(1);
}

static double now_ms(void) {
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

static SSL_CTX *context(const char *folder, const char *mine, const char *theirs, int is_server, int mutual) {
	char path[4096];
	SSL_CTX *ctx = SSL_CTX_new(is_server ? TLS_server_method() : TLS_client_method());
	if (!ctx || !SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) || !SSL_CTX_set1_groups_list(ctx, "MLKEM768")
	    || !SSL_CTX_set1_sigalgs_list(ctx, "mldsa65") || !SSL_CTX_set1_client_sigalgs_list(ctx, "mldsa65")
	    || !SSL_CTX_set_ciphersuites(ctx, "TLS_AES_256_GCM_SHA384"))
		fail("this OpenSSL has no ML-KEM-768 or ML-DSA-65");
	SSL_CTX_set_num_tickets(ctx, 0);
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	if (is_server || mutual) {
		snprintf(path, sizeof path, "%s/%s.cert.pem", folder, mine);
		if (SSL_CTX_use_certificate_file(ctx, path, SSL_FILETYPE_PEM) != 1)
			fail("no certificate");
		snprintf(path, sizeof path, "%s/%s.key.pem", folder, mine);
		if (SSL_CTX_use_PrivateKey_file(ctx, path, SSL_FILETYPE_PEM) != 1)
			fail("no key");
	}
	if (!is_server || mutual) {
		snprintf(path, sizeof path, "%s/%s.cert.pem", folder, theirs);
		if (SSL_CTX_load_verify_file(ctx, path) != 1)
			fail("no trust anchor");
		SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	}
	return ctx;
}

#include "../tcp.h"

static _Noreturn void serve(SSL_CTX *ctx, const char *host, const char *port) {
	struct sockaddr_in address;
	const int one = 1;
	const int listener = tcp(&address, host, port);
	if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 16))
		fail("cannot listen");
	puts("ready");
	fflush(stdout);
	for (;;) {
		const int fd = accept(listener, NULL, NULL);
		if (fd < 0)
			continue;
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
		SSL *ssl = SSL_new(ctx);
		SSL_set_fd(ssl, fd);
		if (SSL_accept(ssl) == 1)
			SSL_write(ssl, "k", 1);
		else
			ERR_print_errors_fp(stderr);
		// Wait for the client to go first: TIME_WAIT belongs to it, as in the tunnel's handshake.
		char byte;
		SSL_read(ssl, &byte, 1);
		SSL_free(ssl);
		close(fd);
	}
}

static int dial(SSL_CTX *ctx, const char *host, const char *port, int mutual, int count) {
	printf("{\"library\": \"%s\", \"handshakes\": [", OpenSSL_version(OPENSSL_VERSION));
	for (int number = 0; number < count; number++) {
		struct sockaddr_in address;
		char byte = 0;
		const double start = now_ms();
		const int fd = tcp(&address, host, port);
		if (connect(fd, (struct sockaddr *)&address, sizeof address))
			fail("cannot connect");
		SSL *ssl = SSL_new(ctx);
		SSL_set_fd(ssl, fd);
		if (SSL_connect(ssl) != 1)
			fail("handshake failed");
		const double finished = now_ms();
		if (SSL_read(ssl, &byte, 1) != 1 || byte != 'k')
			fail("the server did not confirm");
		const double confirmed = now_ms();
		if (number == 0 && (SSL_get_negotiated_group(ssl) == 0 || SSL_session_reused(ssl)
		                    || (mutual && SSL_get_certificate(ssl) == NULL)))
			fail("this is not the handshake that was asked for");
		printf("%s{\"finished_ms\": %.6f, \"confirmed_ms\": %.6f}", number ? ", " : "", finished - start,
		       confirmed - start);
		SSL_shutdown(ssl);
		SSL_free(ssl);
		close(fd);
		const struct timespec pause = {0, 2000000};
		nanosleep(&pause, NULL);
	}
	puts("]}");
	return 0;
}

int main(int argc, char **argv) {
	if (argc < 6)
		fail("usage: tls_peer server|client FOLDER ADDRESS PORT mutual|server [COUNT]");
	const int is_server = !strcmp(argv[1], "server"), mutual = !strcmp(argv[5], "mutual");
	SSL_CTX *ctx = context(argv[2], argv[1], is_server ? "client" : "server", is_server, mutual);
	if (is_server)
		serve(ctx, argv[3], argv[4]);
	return dial(ctx, argv[3], argv[4], mutual, argc > 6 ? atoi(argv[6]) : 1);
}
