// SPDX-License-Identifier: MIT
// The socket of a peer in C. Whoever includes it has <arpa/inet.h>, <netinet/tcp.h>, <stdlib.h>, <string.h> and fail().

static int tcp(struct sockaddr_in *address, const char *host, const char *port) {
	const int one = 1;
	const int fd = socket(AF_INET, SOCK_STREAM, 0);
	memset(address, 0, sizeof *address);
	address->sin_family = AF_INET;
	address->sin_port = htons((uint16_t)atoi(port));
	if (fd < 0 || inet_pton(AF_INET, host, &address->sin_addr) != 1)
		fail("bad address");
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	return fd;
}
