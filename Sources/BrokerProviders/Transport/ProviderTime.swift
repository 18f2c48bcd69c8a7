import AsyncHTTPClient
package import Broker
import NIOCore
import NIOHTTP1

/// The source of a provider's `Date`, which is requested to check this machine's clock.
///
/// The `Date` in answers to other calls proves nothing. Proofs and assertions in those calls contain the broker's time, which a
/// server may repeat.
struct ProviderTime: Sendable {
    private let url: EndpointURL?
    private let http: ProviderHTTP
    private let trust: TrustRoots?
    private let allowsPrivate: Bool

    /// Creates the source for an address; an address on plain http or loopback is never asked.
    init(_ url: EndpointURL?, _ settings: ProviderSettings, _ http: ProviderHTTP) {
        self.url = url.flatMap { $0.base.scheme == "https" && !$0.base.isLoopback ? $0 : nil }
        self.http = http
        trust = settings.trust
        allowsPrivate = settings.allowPrivate
    }

    /// The host to ask; nil if its answer would prove nothing.
    var host: String? { url?.base.host?.lowercased() }

    /// Returns the policy for the addresses that may be asked.
    ///
    /// `HTTPClients.elsewhere` refuses this machine's own addresses, which `any` would permit.
    static func addresses(areInternal: Bool) -> AddressPolicy { areInternal ? .any : .publicOnly }

    /// Requests the time from the provider once.
    func ask() async -> WallTime? {
        guard let url else { return nil }
        return await http.date(of: url, trusting: trust, internalAddresses: allowsPrivate)
    }

    /// Returns the request for a `Date`.
    ///
    /// It does not contain the broker's own time, which a server could repeat in its answer.
    static func request(_ url: EndpointURL) -> HTTPClientRequest {
        var request = HTTPClientRequest(url: url.text)
        request.headers = [
            "User-Agent": "coatcheck", "Accept": "*/*", "Cache-Control": "no-cache", "Connection": "close",
        ]
        return request
    }

    /// Returns the time in an answer's fields, if there is exactly one `Date`.
    ///
    /// An answer with an `Age` gives nil, because caches add `Age` to stored answers.
    static func evidence(in fields: HTTPHeaders) -> WallTime? {
        let dates = fields["Date"]
        guard dates.count == 1, fields["Age"].isEmpty else { return nil }
        return HTTPDate.parse(dates[0])
    }
}

extension ProviderHTTP {
    /// Asks another machine for its `Date`, on its own connection; nil if the answer proves nothing.
    ///
    /// A failed TLS handshake proves nothing, because certificates are verified with the clock that may be wrong.
    fileprivate func date(
        of url: EndpointURL, trusting trust: TrustRoots?, internalAddresses: Bool
    ) async -> WallTime? {
        let policy = ProviderTime.addresses(areInternal: internalAddresses || allowsPrivate)
        let client = client(elsewhere: policy, trusting: trust)
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
