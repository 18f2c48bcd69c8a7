import AsyncHTTPClient
import Broker
import NIOCore
import NIOHTTP1
import Testing

/// Plays the system browser: opens an authorization URL, consents, and reads the redirect.
enum Browser {
    // The client is shared by all tests, so it is never shut down.
    private static let client = HTTPClient(
        eventLoopGroup: HTTPClient.defaultEventLoopGroup, configuration: .init(redirectConfiguration: .disallow))

    /// Returns the callback URL's parameters after `user` consented.
    static func callback(_ url: Secret, user: String = "ana") async throws -> FormPairs {
        let location = try await open(url, user: user)
        let query = location.firstIndex(of: "?").map { String(location[location.index(after: $0)...]) } ?? ""
        return try FormPairs(parsing: query)
    }

    /// Follows up to five redirects to HTTP addresses, and returns the last address.
    static func land(_ url: Secret, user: String = "ana") async throws -> String {
        var place = url.reveal()
        for _ in 0..<5 where place.hasPrefix("http") { place = try await open(Secret(place), user: user) }
        return place
    }

    /// Opens `url` as `user`, and returns the address of the provider's redirect.
    static func open(_ url: Secret, user: String = "ana") async throws -> String {
        let text = url.reveal() + (url.reveal().contains("?") ? "&" : "?") + "sandbox_user=" + user
        var request = HTTPClientRequest(url: text)
        request.headers.add(name: "Accept", value: "application/json")
        let response = try await client.execute(request, timeout: .seconds(10))
        if let location = response.headers.first(name: "Location") { return location }
        let body = try await response.body.collect(upTo: 1 << 20)
        let object = try JSONParser.parseObject(Array(body.readableBytesView), maximumBytes: 1 << 20)
        // The sandbox answers a form post with its fields if the request accepts JSON.
        return (object["action"]?.string ?? "") + "?" + (object["body"]?.string ?? "")
    }
}
