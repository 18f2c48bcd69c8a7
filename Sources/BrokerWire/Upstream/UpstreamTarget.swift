package import NIOCore
package import NIOSSL

/// An upstream's host, port and TLS context, and the proxy that leads there.
package struct UpstreamTarget: Sendable {
    /// A proxy that connects to the upstream.
    package struct Proxy: Sendable {
        let host: String
        let port: Int
        /// The value of `Proxy-Authorization`.
        let credentials: String?

        package init(host: String, port: Int, credentials: String? = nil) {
            self.host = host
            self.port = port
            self.credentials = credentials
        }
    }

    /// A name, or an IP address without brackets.
    package let host: String
    package let port: Int
    /// The context for TLS, or the error that prevented it; nil for plain HTTP.
    package var tls: Result<NIOSSLContext, any Error>?
    package var proxy: Proxy?
    /// Returns whether calls to an address are allowed.
    ///
    /// The address is nil if it is unknown.
    package var allows: @Sendable (SocketAddress?) -> Bool

    package init(host: String, port: Int, allows: @escaping @Sendable (SocketAddress?) -> Bool) {
        self.host = host
        self.port = port
        self.allows = allows
    }

    /// The host as a socket address, if it is an IP address.
    var address: SocketAddress? { try? SocketAddress(ipAddress: host, port: port) }
}
