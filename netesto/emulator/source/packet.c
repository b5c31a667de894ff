/* See packet.h. */
#include "packet.h"

#include <arpa/inet.h>
#include <string.h>

#define ETHERNET 14
#define CONNECTIONS 65536

static int read16(const unsigned char *at)
{
	return at[0] << 8 | at[1];
}

static uint32_t read32(const unsigned char *at)
{
	return (uint32_t)read16(at) << 16 | (uint32_t)read16(at + 2);
}

/* Where the IP header is, and its version; 0 if there is none. */
static int find_ip(const unsigned char *data, int bytes, int *version)
{
	int at = ETHERNET, type;
	if (bytes < at)
		return 0;
	type = read16(data + 12);
	while ((type == 0x8100 || type == 0x88a8) && bytes >= at + 4) {
		type = read16(data + at + 2);
		at += 4;
	}
	*version = type == 0x0800 ? 4 : type == 0x86dd ? 6 : 0;
	bool is_there = (*version == 4 && bytes >= at + 20 && data[at] >> 4 == 4) ||
			(*version == 6 && bytes >= at + 40 && data[at] >> 4 == 6);
	return is_there ? at : 0;
}

struct packet packet_read(const unsigned char *data, int bytes)
{
	struct packet found = {0};
	int version = 0, at = find_ip(data, bytes, &version), end, next;
	if (!at)
		return found;
	const unsigned char *ip = data + at;
	if (version == 4) {
		found.family = AF_INET;
		found.protocol = ip[9];
		inet_ntop(AF_INET, ip + 12, found.source, sizeof found.source);
		inet_ntop(AF_INET, ip + 16, found.destination, sizeof found.destination);
		next = at + (ip[0] & 15) * 4;
		end = at + read16(ip + 2);
		/* A later fragment has no ports. */
		if (read16(ip + 6) & 0x1fff)
			return found;
	} else {
		found.family = AF_INET6;
		found.protocol = ip[6];
		inet_ntop(AF_INET6, ip + 8, found.source, sizeof found.source);
		inet_ntop(AF_INET6, ip + 24, found.destination, sizeof found.destination);
		next = at + 40;
		end = next + read16(ip + 4);
	}
	if (end > bytes)
		end = bytes;
	if (found.protocol == IPPROTO_TCP && next + 20 <= end) {
		found.is_tcp = true;
		found.sequence = read32(data + next + 4);
		found.is_syn = data[next + 13] & 2;
		found.payload = end - next - (data[next + 12] >> 4) * 4;
	} else if (found.protocol == IPPROTO_UDP && next + 8 <= end) {
		found.payload = end - next - 8;
	} else {
		return found;
	}
	found.sport = (uint16_t)read16(data + next);
	found.dport = (uint16_t)read16(data + next + 2);
	if (found.payload < 0)
		found.payload = 0;
	return found;
}

bool packet_mark(unsigned char *data, int bytes)
{
	int version = 0, at = find_ip(data, bytes, &version);
	if (!at)
		return false;
	unsigned char *ip = data + at;
	if (version == 6) {
		/* The traffic class is in the low half of the first byte and the high half of the second. */
		if (!(ip[1] >> 4 & 3))
			return false;
		ip[1] |= 3 << 4;
		return true;
	}
	if (!(ip[1] & 3))
		return false;
	if ((ip[1] & 3) != 3) {
		/* RFC 1624, equation 3. */
		uint32_t sum = (uint16_t)~read16(ip + 10), before = (uint16_t)~read16(ip);
		ip[1] |= 3;
		sum += before + (uint32_t)read16(ip);
		while (sum >> 16)
			sum = (sum & 0xffff) + (sum >> 16);
		sum = ~sum & 0xffff;
		ip[10] = (unsigned char)(sum >> 8);
		ip[11] = (unsigned char)sum;
	}
	return true;
}

static struct {
	uint64_t key;
	uint32_t first;
} connections[CONNECTIONS];

static uint64_t key_of(const struct packet *packet)
{
	uint64_t hash = UINT64_C(14695981039346656037);
	char text[2 * INET6_ADDRSTRLEN + 16];
	int length = snprintf(text, sizeof text, "%s %u %s %u", packet->source, packet->sport, packet->destination, packet->dport);
	for (int n = 0; n < length; n++)
		hash = (hash ^ (unsigned char)text[n]) * UINT64_C(1099511628211);
	return hash | 1;
}

void connections_note(const unsigned char *data, int bytes)
{
	struct packet packet = packet_read(data, bytes);
	uint64_t key = key_of(&packet);
	connections[key / 2 % CONNECTIONS].key = key;
	connections[key / 2 % CONNECTIONS].first = packet.sequence;
}

uint32_t connections_count(const struct packet *packet)
{
	uint64_t key = key_of(packet);
	if (!packet->is_tcp || connections[key / 2 % CONNECTIONS].key != key)
		return 0;
	return packet->sequence - connections[key / 2 % CONNECTIONS].first;
}

static const char *name_of(const struct packet *packet)
{
	switch (packet->family ? packet->protocol : -1) {
	case IPPROTO_TCP:
		return "tcp";
	case IPPROTO_UDP:
		return "udp";
	case IPPROTO_ICMP:
		return "icmp";
	case IPPROTO_ICMPV6:
		return "icmp6";
	default:
		return "";
	}
}

void packet_write(FILE *file, const struct packet *packet)
{
	fprintf(file, "%s,%s,", name_of(packet), packet->source);
	if (packet->sport)
		fprintf(file, "%u", packet->sport);
	fprintf(file, ",%s,", packet->destination);
	if (packet->dport)
		fprintf(file, "%u", packet->dport);
	putc(',', file);
	uint32_t count = connections_count(packet);
	if (packet->is_tcp && count)
		fprintf(file, "%u", count);
	putc(',', file);
	if (packet->sport)
		fprintf(file, "%d", packet->payload);
	putc('\n', file);
}
