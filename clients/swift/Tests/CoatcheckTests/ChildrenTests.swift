import Foundation
import Testing

@testable import Coatcheck

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

extension BrokerTests {
    /// The child sessions of an app: a widget's and a web view's.
    @Suite(.timeLimit(.minutes(2))) struct ChildrenTests {
        /// A URL session without a cookie store, because the cookies that the broker sets here belong to a web view.
        private let network: URLSession = {
            let configuration = URLSessionConfiguration.ephemeral
            configuration.httpCookieStorage = nil
            configuration.httpShouldSetCookies = false
            return URLSession(configuration: configuration)
        }()

        private func problem(_ work: () async throws -> some Any) async -> Problem? {
            do { _ = try await work() } catch { return error as? Problem }
            return nil
        }

        /// Returns the broker's answer about the session of a request.
        private func look(_ stack: Stack, _ field: String, _ value: String) async throws -> (Int, String) {
            var request = URLRequest(url: stack.broker.appendingPathComponent("v1/session"))
            request.httpShouldHandleCookies = false
            request.setValue(value, forHTTPHeaderField: field)
            let (data, answer) = try await network.data(for: request)
            return ((answer as? HTTPURLResponse)?.statusCode ?? 0, String(decoding: data, as: UTF8.self))
        }

        @Test("An app makes a session for its widget → a child session, which ends with the app's session")
        func widget() async throws {
            let stack = try await Stack.shared.value
            let phone = stack.device()
            #expect(await problem { try await phone.child(kind: "widget", name: "home") }?.code == .sessionRequired)
            let session = try #require(try await phone.signIn(with: "oidc").session)
            let refused = await problem { try await phone.child(kind: "tv", name: "home") }
            #expect(refused?.code.rawValue == "client_not_allowed")
            let child = try await phone.child(kind: "widget", name: "home", device: "home screen")
            #expect(child.session.kind == "widget" && child.session.parent == session.handle)
            #expect(try await look(stack, "Authorization", "Bearer \(child.token)").0 == 200)
            #expect(try await phone.sessions().contains { $0.kind == "widget" && $0.device == "home screen" })
            try await phone.signOut()
            #expect(try await stack.ending("Authorization", "Bearer \(child.token)") == "parent_ended")
        }

        @Test(
            "An app hands its session over to a web view → the web view has the cookie before the app gets the address")
        func webView() async throws {
            let stack = try await Stack.shared.value
            let phone = stack.device()
            _ = try await phone.signIn(with: "oidc")
            let elsewhere = try Stack.url("https://evil.example")
            let refused = await problem { try await phone.handOver(to: elsewhere) { _ in } }
            #expect(refused?.code.rawValue == "invalid_request")
            let store = Store()
            let address = try await phone.handOver(to: stack.broker, path: "/v1/session") { cookie in
                await store.put(cookie)
            }
            let cookie = try #require(await store.cookie)
            #expect(cookie.name == "coatcheck-handover" && cookie.httpCookie?.path == "/")
            var request = URLRequest(url: address)
            request.httpMethod = "POST"
            request.httpShouldHandleCookies = false
            request.setValue("same-origin", forHTTPHeaderField: "Sec-Fetch-Site")
            request.setValue("\(cookie.name)=\(cookie.value)", forHTTPHeaderField: "Cookie")
            let (_, answer) = try await network.data(for: request)
            // The redirect to the page shows that the ticket was spent. The web view's own cookie is not tested here.
            #expect((answer as? HTTPURLResponse)?.url?.path == "/v1/session")
            #expect(try await phone.sessions().contains { $0.kind == "web" })
        }

        private actor Store {
            private(set) var cookie: HandOverCookie?
            func put(_ cookie: HandOverCookie) { self.cookie = cookie }
        }
    }
}
