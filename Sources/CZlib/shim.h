// zlib, which NIOHTTPCompression is linked with, for content codings that it does not decode (decision 80).
#include <zlib.h>

// The same as the macro, which Swift does not see.
static inline int coatcheck_inflate_init(z_stream *stream, int window_bits) {
    return inflateInit2(stream, window_bits);
}
