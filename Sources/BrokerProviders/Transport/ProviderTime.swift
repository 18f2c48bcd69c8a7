import AsyncHTTPClient
package import Broker
import NIOCore
import NIOHTTP1

/// The `Date` of a provider, asked for to find out whether this machine's clock is right.
///
/// Another call's `Date` is no evidence: a proof or an assertion in it has our own time, which a server may repeat.
struct ProviderTime: Sendable {
    private let url: EndpointURL?
    private let http: ProviderHTTP
    private let trust: TrustRoots?
    private let allowsPrivate: Bool

    /// Creates the question to an address; nothing is asked without TLS, or of loopback.
    init(_ url: EndpointURL?, _ settings: ProviderSettings, _ http: ProviderHTTP) {
        self.url = url.flatMap { $0.base.scheme == "https" && !$0.isLoopback ? $0 : nil }
        self.http = http
        trust = settings.trust
        allowsPrivate = settings.allowPrivate
    }

    /// The host that is asked; nil where no answer could be evidence.
    var host: String? { url?.base.host?.lowercased() }

    /// Asks once.
    func ask() async -> WallTime? {
        guard let url else { return nil }
        return await http.date(of: url, trusting: trust, internalAddresses: allowsPrivate)
    }

    /// Returns the question, in which nothing tells our own time.
    static func request(_ url: EndpointURL) -> HTTPClientRequest {
        var request = HTTPClientRequest(url: url.text)
        request.headers = [
            "User-Agent": "coatcheck", "Accept": "*/*", "Cache-Control": "no-cache", "Connection": "close",
        ]
        return request
    }

    /// Returns the time in an answer's fields: one `Date`, and no `Age`, with which a cache says that it is older.
    static func evidence(in fields: HTTPHeaders) -> WallTime? {
        let dates = fields["Date"]
        guard dates.count == 1, fields["Age"].isEmpty else { return nil }
        return HTTPDate.parse(dates[0])
    }
}

extension ProviderHTTP {
    /// Asks an address of another machine for its `Date`, on a connection of its own; nil for an answer that proves nothing.
    ///
    /// A handshake that fails proves nothing, either: certificates are verified by the clock that is in doubt.
    fileprivate func date(
        of url: EndpointURL, trusting trust: TrustRoots?, internalAddresses: Bool
    ) async -> WallTime? {
        let client = client(
            elsewhere: internalAddresses || allowsPrivate ? .any : .publicOnly, trusting: trust)
        let fields = try? await client.execute(ProviderTime.request(url), timeout: .seconds(5)).headers
        try? await client.shutdown()
        return fields.flatMap(ProviderTime.evidence)
    }
}

extension EngineBacked {
    package var timeHost: String? { engine.time.host }
    package func time() async -> WallTime? { await engine.time.ask() }
}

extension ZephrClient: TimeTelling {
    package var timeHost: String? { clockSource.host }
    package func time() async -> WallTime? { await clockSource.ask() }
}
