#include "server.h"

http_handler *const http_handlers[ROUTE_COUNT] = {
#define ROUTE(id, method, pattern, scopes, body_max, handler) [ROUTE_##id] = (handler),
#include "routes.def"
#undef ROUTE
};
