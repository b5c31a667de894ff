/* See program.h. */
#include "program.h"

#include <string.h>

int main(int count, char **words)
{
	if (count == 2 && !strcmp(words[1], "version")) {
		printf("netesto-link %s\n", VERSION);
		return 0;
	}
	if (count > 1 && !strcmp(words[1], "stress"))
		return stress(count - 2, words + 2);
	if (count > 1 && !strcmp(words[1], "replay"))
		return replay(count - 2, words + 2);
	if (count > 1 && !strcmp(words[1], "carry"))
		return carry(count - 2, words + 2);
	if (count > 3 && !strcmp(words[1], "tell"))
		return tell(count - 2, words + 2);
	die("usage: netesto-link stress|replay|carry NAME=VALUE... | tell CONTROL WORDS... | version");
}
