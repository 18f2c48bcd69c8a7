package import NIOCore
package import NIOSSL

/// Where an upstream is, and how to get there.
package struct UpstreamTarget: Sendable {
    /// A proxy that connects for us.
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

    /// A name, or an address without brackets.
    package let host: String
    package let port: Int
    /// What TLS is made with; nil for none.
    package var tls: Result<NIOSSLContext, any Error>?
    package var proxy: Proxy?
    /// Says whether a call may be sent to an address, which nil is when it is not known.
    package var allows: @Sendable (SocketAddress?) -> Bool

    package init(host: String, port: Int, allows: @escaping @Sendable (SocketAddress?) -> Bool) {
        self.host = host
        self.port = port
        self.allows = allows
    }

    /// The host as an address, if it is one.
    var address: SocketAddress? { try? SocketAddress(ipAddress: host, port: port) }
}
