// The system's libpq, PostgreSQL's own client (docs/decisions/0003).
#include <libpq-fe.h>
