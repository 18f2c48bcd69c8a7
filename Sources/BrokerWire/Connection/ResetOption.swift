#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// The socket option that makes closing a reset: what is not sent is thrown away, and the peer is told so.
enum ResetOption {
    static let value = linger(l_onoff: 1, l_linger: 0)
}
