/* What is in a frame: as much of it as its marks and the list of lost frames need. */
#ifndef NETESTO_PACKET_H
#define NETESTO_PACKET_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* A frame of IPv4 or IPv6, perhaps behind VLAN tags; `family` is 0 for others. */
struct packet {
	int family;
	int protocol;
	char source[INET6_ADDRSTRLEN], destination[INET6_ADDRSTRLEN];
	uint16_t sport, dport; /* 0: none */
	bool is_tcp, is_syn;
	uint32_t sequence;
	int payload; /* bytes behind the headers of TCP or UDP */
};

struct packet packet_read(const unsigned char *data, int bytes);
/* Set CE in the IP header, if the sender can ECN. */
bool packet_mark(unsigned char *data, int bytes);

/* The first sequence numbers of connections, so that bytes are counted from the SYN. */
void connections_note(const unsigned char *data, int bytes);
uint32_t connections_count(const struct packet *);

/* The columns protocol,source,sport,destination,dport,tcp_seq,payload. */
void packet_write(FILE *, const struct packet *);

#endif
