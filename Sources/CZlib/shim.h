// zlib, for content codings that NIOHTTPCompression leaves undecoded. NIOHTTPCompression links it too (decision 80).
#include <zlib.h>

// A function for the macro inflateInit2, because Swift cannot import the macro.
static inline int coatcheck_inflate_init(z_stream *stream, int window_bits) {
    return inflateInit2(stream, window_bits);
}
