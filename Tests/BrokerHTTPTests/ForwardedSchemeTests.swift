import Broker
import BrokerWire
import Testing

@testable import BrokerHTTP

/// `X-Forwarded-Proto` behind several proxies, over sockets.
///
/// 10.0.0.0/8 and this machine are trusted.
@Suite("Forwarded schemes", .timeLimit(.minutes(1)))
struct ForwardedSchemeTests {
    struct Row: Sendable, CustomTestStringConvertible {
        let hops: [String]
        let schemes: [String]
        var says: String?
        var testDescription: String { "\(hops) \(schemes)" }
    }

    private static let client = "198.51.100.7"
    private static let two = ["198.51.100.7, 10.0.0.2"]
    private static let three = ["198.51.100.7, 10.0.0.2, 10.0.0.3"]

    static let refused: [Row] = [
        Row(hops: [], schemes: ["http"], says: "entry 1"), Row(hops: [client], schemes: ["http"], says: "entry 1"),
        Row(hops: [client], schemes: ["ws"], says: "entry 1"), Row(hops: [client], schemes: [""], says: "entry 1"),
        Row(hops: [client], schemes: ["ftp"]), Row(hops: [client], schemes: ["https;x"]),
        Row(hops: [client], schemes: ["\u{130}https"]),
        // A client may send `X-Forwarded-Proto` itself. Its entries are then to the left of the entries of trusted proxies.
        Row(hops: [client], schemes: ["https, http"], says: "entry 1"),
        Row(hops: [client], schemes: ["https", "http"], says: "entry 1"),
        Row(hops: two, schemes: ["http, https"], says: "entry 2"), Row(hops: two, schemes: ["https, http, https"]),
        Row(hops: two, schemes: ["http", "https"]), Row(hops: ["spoofed, 198.51.100.7"], schemes: ["https,http"]),
        Row(hops: [], schemes: ["https,http"], says: "entry 1"),
        Row(hops: three, schemes: ["http,https,https"], says: "entry 3"),
        // An empty entry counts like any other entry of a proxy.
        Row(hops: [client], schemes: ["https,"], says: "entry 1"), Row(hops: two, schemes: ["https,,http"]),
        // The field has fewer entries than hops.
        Row(hops: three, schemes: ["https,https"], says: "2 entries behind 3 hops"),
        Row(hops: three, schemes: ["https", "https"], says: "2 entries behind 3 hops"),
    ]

    static let accepted: [Row] = [
        Row(hops: [], schemes: []), Row(hops: [client], schemes: ["https"]), Row(hops: [client], schemes: ["HTTPS"]),
        Row(hops: [client], schemes: ["wss"]), Row(hops: [client], schemes: ["WsS"]),
        Row(hops: [client], schemes: ["http, https"]), Row(hops: two, schemes: ["https,http"]),
        Row(hops: two, schemes: ["https", "http"]), Row(hops: two, schemes: [" https \t,\thttp "]),
        Row(hops: ["198.51.100.7", "10.0.0.2"], schemes: ["wss", "ws"]), Row(hops: two, schemes: ["http, HTTPS, http"]),
        Row(hops: three, schemes: ["https, http, http"]), Row(hops: three, schemes: ["https", "http, http"]),
        Row(hops: [], schemes: ["http,https"]),
        // Only the proxy next to the client sets the field.
        Row(hops: two, schemes: ["https"]), Row(hops: three, schemes: ["https"]),
        // The broker reads the hops from the right, and stops at the malformed one.
        Row(hops: ["198.51.100.7, unknown, 10.0.0.3"], schemes: ["http, http, https"]),
    ]

    private static func answer(
        _ row: Row, trusted: [String] = ["127.0.0.0/8", "10.0.0.0/8"]
    ) async throws -> (text: String, record: RequestRecord?) {
        let harness = try HTTPHarness { configuration, _ in
            configuration.trustedProxies = trusted.compactMap { IPNetwork($0) }
        }
        let fields =
            row.hops.map { "X-Forwarded-For: \($0)\r\n" } + row.schemes.map { "X-Forwarded-Proto: \($0)\r\n" }
        let text = try await harness.live { port in
            try await RawClient(port: port).exchange(
                "GET /v1/providers HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + fields.joined() + "\r\n")
        }
        return (text, harness.records.all.last)
    }

    @Test(
        "The client reached the first trusted proxy by http → 400, and the log names the entry of `X-Forwarded-Proto` (SEC-104)",
        arguments: refused)
    func plain(_ row: Row) async throws {
        let (text, record) = try await Self.answer(row)
        #expect(text.hasPrefix("HTTP/1.1 400 "), "\(text)")
        if let says = row.says {
            #expect(record?.privateDetail?.contains(says) == true, "\(record?.privateDetail ?? "")")
        }
    }

    @Test(
        "The entry for the client in `X-Forwarded-Proto` is https or wss → served (SEC-104)", arguments: accepted
    )
    func secure(_ row: Row) async throws {
        let (text, _) = try await Self.answer(row)
        #expect(text.hasPrefix("HTTP/1.1 200 "), "\(text)")
    }

    @Test("`X-Forwarded-Proto` has fewer entries than there are trusted hops → 400, and the answer names this fault")
    func tooShort() async throws {
        let (text, _) = try await Self.answer(Row(hops: Self.three, schemes: ["https,https"]))
        #expect(text.contains("X-Forwarded-Proto has fewer entries than X-Forwarded-For has trusted hops"))
    }

    @Test(
        "An untrusted peer sends `X-Forwarded` fields → they are ignored (SEC-104)",
        arguments: refused + accepted)
    func stranger(_ row: Row) async throws {
        let (text, _) = try await Self.answer(row, trusted: ["203.0.113.0/24"])
        #expect(text.hasPrefix("HTTP/1.1 200 "), "\(text)")
    }
}
