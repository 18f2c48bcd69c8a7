import Foundation

@testable import Coatcheck

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// A proxy before the broker that records each request's evidence and disturbs the traffic (`evidence_proxy.py`).
final class MeddlingNetwork: @unchecked Sendable {
    /// A recorded request.
    struct Seen: Decodable, Hashable {
        let method: String
        let path: String
        let proof: Bool
        let pass: Bool
        let status: Int?
        let code: String?
        let jti: String?
        /// The presence proof of the request.
        let presence: String?
        let iat: Int?
    }

    var url: URL { proxy.url }
    private let proxy: ProxyProcess

    init(to broker: URL) throws { proxy = try ProxyProcess("evidence_proxy.py", to: broker) }

    /// Returns the requests since the last `forget()`.
    func calls() async throws -> [Seen] {
        try JSONDecoder().decode([Seen].self, from: try await control("GET", "_calls"))
    }

    /// Deletes the recorded requests.
    func forget() async throws { _ = try await control("DELETE", "_calls") }

    /// Disturbs the next `times` requests for a path.
    ///
    /// `evidence_proxy.py` explains the kinds.
    func meddle(_ kind: String, _ path: String, times: Int = 1) async throws {
        _ = try await control("POST", "_meddle/\(kind)/\(times)\(path)")
    }

    /// Makes a pass invalid from now on, like a pass that has expired.
    func end(_ pass: String) async throws { _ = try await control("POST", "_end/\(pass)") }

    /// Sends the held answers.
    func release() async throws { _ = try await control("POST", "_release") }

    private func control(_ method: String, _ path: String) async throws -> Data {
        var request = URLRequest(url: try Stack.url("\(url.absoluteString)/\(path)"))
        request.httpMethod = method
        return try await URLSession.shared.data(for: request).0
    }
}
