package import Broker

/// `outbound`: the settings for calls to providers and upstreams.
package struct TransportSettings: Sendable {
    /// An HTTP proxy (`outbound.proxy`, `http://host:port`).
    package struct Proxy: Sendable {
        package var host: String
        package var port: Int
        /// `outbound.proxy_credentials`: `user:password`, if the proxy requires them.
        package var credentials: Secret?

        package init(host: String, port: Int, credentials: Secret? = nil) {
            self.host = host
            self.port = port
            self.credentials = credentials
        }
    }

    /// `outbound.ca_file`: a PEM file with further trust roots.
    ///
    /// Verification itself is always on (SEC-111).
    package var caFile: String?
    /// `outbound.proxy`, for all calls except those to loopback.
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
