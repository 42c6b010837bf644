/* post.h: one HTTP POST that may fail in any way: faults are what this is for. */
#ifndef PRESENCE_TEST_FAULTS_POST_H
#define PRESENCE_TEST_FAULTS_POST_H

#include <stddef.h>

/* The status; 0: no answer within timeout_ms, the effect is unknown. answer: the body, cut where it does not fit. */
int post(const char *address, const char *token, const char *path, const char *body, int timeout_ms, char *answer, size_t room);

#endif
