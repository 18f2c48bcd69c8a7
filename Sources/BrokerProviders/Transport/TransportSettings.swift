package import Broker

/// `outbound`: how provider calls leave this machine.
package struct TransportSettings: Sendable {
    /// An HTTP proxy (`outbound.proxy`, `http://user:password@host:port`).
    package struct Proxy: Sendable {
        package var host: String
        package var port: Int
        /// `user:password`, when the proxy wants one.
        package var credentials: Secret?

        package init(host: String, port: Int, credentials: Secret? = nil) {
            self.host = host
            self.port = port
            self.credentials = credentials
        }
    }

    /// `outbound.ca_file`: a PEM file of further trust roots.
    ///
    /// Verification itself cannot be switched off (SEC-111).
    package var caFile: String?
    /// `outbound.proxy`; calls to loopback do not use it.
    package var proxy: Proxy?
    /// `outbound.allow_private`: whether every provider may be reached at private addresses (SEC-74).
    package var allowPrivate: Bool
    /// The setting `outbound.connect_timeout`.
    package var connectTimeout: Duration

    package init(
        caFile: String? = nil, proxy: Proxy? = nil, allowPrivate: Bool = false,
        connectTimeout: Duration = .seconds(5)
    ) {
        self.caFile = caFile
        self.proxy = proxy
        self.allowPrivate = allowPrivate
        self.connectTimeout = connectTimeout
    }
}
