import Foundation
import Testing

@testable import Coatcheck

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// The tests that share a broker and count its calls.
///
/// The tests run one after the other.
@Suite("The client with a broker", .enabled(if: Stack.missing == nil), .serialized)
enum BrokerTests {}

extension BrokerTests {
    @Suite("Flows of a sign-in, and calls of a session", .timeLimit(.minutes(5)))
    struct FlowTests {
        private func problem(_ work: () async throws -> some Any) async -> Problem? {
            do { _ = try await work() } catch { return error as? Problem }
            return nil
        }

        @Test("Flow A: a user signs in, calls through the relay and signs out → each step succeeds")
        func signIn() async throws {
            let stack = try await Stack.shared.value
            let phone = stack.device()
            #expect(await phone.standing() == .signedOut(reason: nil))
            let signedIn = try await phone.signIn(with: "oidc", device: "Ana's phone")
            let session = try #require(signedIn.session)
            #expect(session.identity["email"] == "ana@example.org" && session.tokens.refreshable)
            #expect(await phone.standing() == .signedIn(session))
            let answer = try await phone.relay("api", "private/echo", query: "a=b")
            #expect(answer.status == 200 && answer.fields["coatcheck-source"] == "upstream")
            #expect(try await phone.sessions().contains { $0.current == true && $0.device == "Ana's phone" })
            try await phone.signOut()
            #expect(await phone.standing() == .signedOut(reason: nil))
            #expect(await problem { try await phone.session() }?.code == .sessionRequired)
        }

        @Test(
            "A user signs in again while an earlier call waits → the next call uses the new session",
            .timeLimit(.minutes(1)))
        func callAfterSignIn() async throws {
            let network = try MeddlingNetwork(to: try await Stack.shared.value.broker)
            let phone = Coatcheck(
                broker: network.url, client: "ios", storage: MemoryStorage(), browser: ScriptedBrowser(user: "nora"))
            let first = try #require(try await phone.signIn(with: "oidc").session)
            try await network.meddle("late", "/v1/session")
            async let early = phone.session()
            while try await !network.calls().contains(where: { $0.path == "/v1/session" && $0.status == 200 }) {
                try await Task.sleep(for: .milliseconds(10))
            }
            let second = try #require(try await phone.signIn(with: "oidc").session)
            // The proxy still holds the early call's answer.
            #expect(try await phone.session().handle == second.handle)
            try await network.release()
            _ = try? await early
            #expect(try phone.storage.read()?.lastSession?.handle == second.handle && first.handle != second.handle)
        }

        @Test(
            "A user refuses, another device has the callback, or the provider is unknown → the broker's problem is thrown"
        )
        func refusals() async throws {
            let stack = try await Stack.shared.value
            #expect(
                await problem { try await stack.device(user: "denied").signIn(with: "oidc") }?.code == .accessDenied)
            let phone = stack.device()
            let callback = try await ScriptedBrowser(user: "ana").open(try await phone.start("oidc"))
            let stranger = stack.device()
            #expect(await problem { try await stranger.finish(callback) }?.code == .loginNotYours)
            #expect(await problem { try await phone.finish(callback) } != nil)
            let unknown = await problem { try await phone.signIn(with: "nobody") }
            #expect(unknown?.code.rawValue == "provider_not_found" && unknown?.requestID.hasPrefix("req_") == true)
            let nowhere = try Stack.url("com.example.app:/cb?code=x&state=y")
            #expect(await problem { try await phone.finish(nowhere) }?.code.rawValue == "state_mismatch")
        }

        @Test("Fifty forwards of one code after a restart of the app → one session and one provider call")
        func fifty() async throws {
            let stack = try await Stack.shared.value
            let file = FileManager.default.temporaryDirectory.appendingPathComponent("coatcheck-\(UUID().uuidString)")
            defer { try? FileManager.default.removeItem(at: file) }
            let callback = try await ScriptedBrowser(user: "ana").open(
                try await stack.device(storage: FileStorage(file)).start("oidc"))
            let kept = try #require(try FileStorage(file).read())
            #expect(kept.login != nil && kept.session == nil)
            let mode = try FileManager.default.attributesOfItem(atPath: file.path)[.posixPermissions] as? Int
            #expect(mode == 0o600)
            let before = try await stack.calls("oidc/token")
            let handles = try await withThrowingTaskGroup(of: String?.self, returning: Set<String?>.self) { group in
                for _ in 0..<50 {
                    let storage = MemoryStorage()
                    try storage.write(kept)
                    let restarted = stack.device(storage: storage)
                    group.addTask { try await restarted.finish(callback).session?.handle }
                }
                return try await group.reduce(into: []) { $0.insert($1) }
            }
            #expect(handles.count == 1 && !handles.contains(nil))
            #expect(try await stack.calls("oidc/token") - before == 1)
        }

        @Test(
            "A provider fails once → the refresh succeeds later; the provider stays unavailable → the session is kept")
        func provider() async throws {
            let stack = try await Stack.shared.value
            let phone = stack.device()
            let session = try #require(try await phone.signIn(with: "oauth2").session)
            // The broker's first 503 has a `Retry-After`, and the library retries after that time.
            try await stack.control(
                "PUT", "/faults/oauth2", #"{"fault":"status","status":503,"endpoint":"refresh","times":1}"#)
            #expect(try await phone.refresh().handle == session.handle)
            // A refresh of the first session was just successful, so the next part uses another session.
            let other = stack.device()
            let kept = try #require(try await other.signIn(with: "oauth2").session)
            try await stack.control("PUT", "/faults/oauth2", #"{"fault":"status","status":503,"endpoint":"refresh"}"#)
            let hasty = Coatcheck(
                broker: stack.broker, client: "ios", storage: other.storage,
                patience: Patience(deadline: .milliseconds(1)))
            #expect(await problem { try await hasty.refresh() }?.status == 503)
            try await stack.control("DELETE", "/faults/oauth2")
            #expect(try await other.session().handle == kept.handle)
        }

        @Test("Two equal calls at the same time → they share one request")
        func singleFlight() async throws {
            let stack = try await Stack.shared.value
            let phone = stack.device(user: "sid")
            let before = try await stack.calls("oidc/authorize")
            async let one = phone.signIn(with: "oidc")
            async let two = phone.signIn(with: "oidc")
            let both = try await (one, two)
            #expect(both.0 == both.1)
            #expect(try await stack.calls("oidc/authorize") - before == 1)
            async let first = phone.session()
            async let second = phone.session()
            #expect(try await first == second)
        }

        @Test(
            "The event stream of a session → delivers the session, a refresh and the end; then the credentials are deleted"
        )
        func events() async throws {
            let stack = try await Stack.shared.value
            let phone = stack.device(user: "eve")
            let session = try #require(try await phone.signIn(with: "oidc").session)
            let tablet = stack.device(user: "eve")
            _ = try await tablet.signIn(with: "oidc")
            var seen: [SessionEvent] = []
            for try await event in phone.events() {
                seen.append(event)
                switch event {
                case .session: _ = try await phone.refresh()
                case .tokensRefreshed: try await tablet.end(session.handle)
                case .ended: break
                }
            }
            #expect(seen.count == 3 && seen[1] == .tokensRefreshed)
            if case .session(let first) = seen[0] {
                #expect(first.handle == session.handle)
            } else {
                Issue.record("\(seen)")
            }
            #expect(seen[2] == .ended(reason: "logged_out_elsewhere"))
            #expect(try phone.storage.read()?.session == nil)
            #expect(await phone.standing() == .signedOut(reason: nil))
            try await tablet.endOthers()
            #expect(try await tablet.sessions().count == 1)
        }

        @Test("Another device ended the session → the client reports the reason, and deletes the session's credentials")
        func ended() async throws {
            let stack = try await Stack.shared.value
            let phone = stack.device(user: "una")
            let tablet = stack.device(user: "una")
            let session = try #require(try await phone.signIn(with: "oidc").session)
            _ = try await tablet.signIn(with: "oidc")
            let cookie = "coatcheck=\(try #require(try phone.storage.read()?.session))"
            try await tablet.end(session.handle)
            #expect(try await stack.ending("Cookie", cookie) == "logged_out_elsewhere")
            #expect(await phone.standing() == .signedOut(reason: "logged_out_elsewhere"))
            #expect(try phone.storage.read()?.session == nil)
        }

        @Test(
            "A relayed 401 or redirect → passed to the app, and the session continues; an ambiguous path → not sent"
        )
        func relay() async throws {
            let stack = try await Stack.shared.value
            let phone = stack.device(user: "ray")
            _ = try await phone.signIn(with: "oidc")
            #expect(try await phone.relay("api", "status/401").status == 401)
            #expect(try await phone.session().subject == "user-ray")
            #expect(try await phone.relay("api", "redirect/302", query: "to=https://elsewhere.example/").status == 302)
            let posted = try await phone.relay(
                "api", "echo", method: "POST", fields: ["Content-Type": "text/plain"], body: Data("hello".utf8))
            #expect(posted.status == 200 && String(decoding: posted.body, as: UTF8.self).contains(#""body":"hello""#))
            #expect(await problem { try await phone.relay("narrow", "echo") }?.code == .upstreamNotAllowed)
            for path in ["../echo", "a//b", "a/./b", "echo?x"] {
                await #expect(throws: CoatcheckError.badPath) { try await phone.relay("api", path) }
            }
            #expect(CoatcheckError.badPath.localizedDescription.contains("argument `query`"))
        }

        @Test("Zephr: a known user → a session; a partial registration → a session once its attributes are accepted")
        func zephr() async throws {
            let stack = try await Stack.shared.value
            #expect(
                try await stack.device().signIn(with: "zephr", socialProvider: "google").session?.provider == "zephr")
            let phone = stack.device(user: "new\(UUID().uuidString.prefix(8).lowercased())")
            guard case .registration(let registration) = try await phone.signIn(with: "zephr", socialProvider: "google")
            else {
                Issue.record("no registration")
                return
            }
            #expect(registration.fields.map(\.name) == ["first-name"])
            try await stack.control("PUT", "/faults/zephr", #"{"fault":"register-weak","times":1}"#)
            let refused = await problem { try await phone.register(registration, attributes: ["first-name": "Ana"]) }
            #expect(refused?.code == .registrationRejected)
            let session = try await phone.register(registration, attributes: ["first-name": "Ana", "birth-year": 1990])
            #expect(try await phone.session().handle == session.handle)
        }

        @Test("A bearer client → stores and sends its token; a sign-out → deletes it")
        func bearer() async throws {
            let stack = try await Stack.shared.value
            let phone = stack.device("android")
            _ = try await phone.signIn(with: "oidc")
            #expect(try phone.storage.read()?.transport == .bearer)
            #expect(try await phone.relay("api", "private/echo").status == 200)
            #expect(try await phone.session().client == "android")
            try await phone.signOut()
            #expect(try phone.storage.read() == nil)
        }

        @Test("Flow B: a callback is forwarded again by its starter → the same session; by another starter → refused")
        func flowB() async throws {
            let stack = try await Stack.shared.value
            // S256 of the verifier of RFC 7636, appendix B.
            let page = try Stack.url(
                "\(stack.sandbox)/oidc/authorize?response_type=code&client_id=ios-app&redirect_uri=com.example.app:/cb&scope=openid"
                    + "&state=my-own-state&code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM&code_challenge_method=S256"
            )
            let callback = try await ScriptedBrowser(user: "ana").open(page)
            let login = AppLogin(
                provider: "oidc", client: "ios", state: "my-own-state",
                codeVerifier: "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk")
            let first = try await stack.device().forward(callback, of: login).session
            #expect(try await stack.device().forward(callback, of: login).session?.handle == first?.handle)
            let other = AppLogin(
                provider: "oidc", client: "ios", state: "my-own-state",
                codeVerifier: "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk")
            #expect(await problem { try await stack.device().forward(callback, of: other) }?.code == .codeAlreadyUsed)
        }

        @Test(
            "Flow B: an app knows the code but not the callback → code and verifier suffice, the session has the requested scope"
        )
        func codeAlone() async throws {
            let stack = try await Stack.shared.value
            let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
            let page = try Stack.url(
                "\(stack.sandbox)/oidc/authorize?response_type=code&client_id=ios-app&redirect_uri=com.example.app:/cb&scope=openid+email"
                    + "&state=kept&code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM&code_challenge_method=S256"
            )
            func login(_ verifier: String?, _ redirect: String = "com.example.app:/cb") -> AppLogin {
                AppLogin(
                    provider: "oidc", client: "ios", state: "kept", codeVerifier: verifier, scope: "openid email",
                    redirectURI: redirect)
            }
            let callback = try await ScriptedBrowser(user: "ana").open(page)
            let query = URLComponents(url: callback, resolvingAgainstBaseURL: false)?.queryItems ?? []
            let code = try #require(query.first { $0.name == "code" }?.value)
            // A callback URL that is built from the library's values lacks the issuer.
            let rebuilt = try Stack.url("com.example.app:/cb?code=\(code)&state=kept")
            #expect(
                await problem { try await stack.device().forward(rebuilt, of: login(verifier)) }?.code.rawValue
                    == "issuer_mismatch")
            #expect(
                await problem { try await stack.device().forward(code: code, of: login(nil)) }?.code.rawValue
                    == "invalid_request")
            #expect(
                await problem { try await stack.device().forward(code: code, of: login(verifier, "com.example:/no")) }?
                    .code.rawValue
                    == "invalid_callback")
            try await stack.control("PUT", "/faults/oidc", #"{"fault":"no-scope","endpoint":"token","times":1}"#)
            let kept = login(verifier)
            let session = try await stack.device().forward(code: code, of: kept).session
            #expect(session?.subject == "user-ana" && session?.scope == ["openid", "email"])
            let again = try JSONDecoder().decode(AppLogin.self, from: try JSONEncoder().encode(kept))
            #expect(try await stack.device().forward(code: code, of: again).session?.handle == session?.handle)
            #expect(
                await problem { try await stack.device().forward(code: code, of: login(verifier)) }?.code
                    == .codeAlreadyUsed)
            try await stack.control("PUT", "/faults/oidc", #"{"fault":"no-scope","endpoint":"token","times":1}"#)
            let whole = try await ScriptedBrowser(user: "ana").open(page)
            #expect(try await stack.device().forward(whole, of: login(verifier)).session?.scope == ["openid", "email"])
        }

        @Test("An SDK's ID token with its nonce → one session for its starter; with another nonce or starter → refused")
        func idToken() async throws {
            let stack = try await Stack.shared.value
            struct Given: Decodable { var id_token: String }
            let login = NativeLogin(provider: "google", client: "web")
            let nonce = try #require(login.hashedNonce)
            let given = try await stack.control(
                "POST", "/native-id-token/google", #"{"client_id":"google-app","user":"ana","nonce":"\#(nonce)"}"#)
            let token = try JSONDecoder().decode(Given.self, from: given).id_token
            let stranger = NativeLogin(provider: "google", client: "web")
            #expect(
                await problem { try await stack.device("web").forward(idToken: token, of: stranger) }?.code
                    == .codeRejected)
            let session = try await stack.device("web").forward(idToken: token, of: login).session
            #expect(session?.subject == "user-ana" && session?.tokens.refreshable == false)
            #expect(try await stack.device("web").forward(idToken: token, of: login).session?.handle == session?.handle)
            let thief = NativeLogin(provider: "google", client: "web", nonce: login.nonce)
            #expect(
                await problem { try await stack.device("web").forward(idToken: token, of: thief) }?.code
                    == .codeAlreadyUsed)
        }

        @Test(
            "Flow C: the user signs in → the handoff becomes a session; the user refuses → the login fails with access_denied"
        )
        func flowC() async throws {
            let stack = try await Stack.shared.value
            #expect(try await HostedDevice.sign(in: stack, user: "ana").session?.client == "hosted")
            await #expect(throws: CoatcheckError.loginFailed(.accessDenied)) {
                try await HostedDevice.sign(in: stack, user: "denied")
            }
        }

        @Test(
            "Flow D: the provider's portal opens the app with a code → one sign-in at the provider, and then a session")
        func portal() async throws {
            let stack = try await Stack.shared.value
            let arrival = try Stack.url("com.example.strict:/cb?code=from-the-portal")
            let before = try await stack.calls("oidc/authorize")
            #expect(try await stack.device("strict").finish(arrival).session?.client == "strict")
            #expect(try await stack.calls("oidc/authorize") - before == 1)
            let alone = Coatcheck(broker: stack.broker, client: "strict", storage: MemoryStorage())
            #expect(await problem { try await alone.finish(arrival) }?.code == .loginRequired)
            // The new login is stored, so that the app can finish it after it has opened the page in another way.
            #expect(try alone.storage.read()?.login != nil)
        }

        @Test(
            "The client keeps its session in a cookie storage → the app's own requests have the cookie until the sign-out"
        )
        func cookies() async throws {
            let stack = try await Stack.shared.value
            let jar = HTTPCookieStorage.shared
            let storage = CookieStorage(broker: stack.broker, cookies: jar)
            let phone = stack.device(user: "coco", storage: storage)
            _ = try await phone.signIn(with: "oidc")
            #expect(jar.cookies(for: stack.broker)?.map(\.name) == ["coatcheck"])
            #expect(
                try await stack.device(storage: CookieStorage(broker: stack.broker, cookies: jar)).session().subject
                    == "user-coco")
            try await phone.signOut()
            #expect(jar.cookies(for: stack.broker)?.isEmpty != false)
        }

        @Test(
            "The broker is killed → the client knows the last user, and a waiting call is answered after the broker's restart"
        )
        func killed() async throws {
            let stack = try await Stack.shared.value
            let phone = stack.device(user: "kim", patience: Patience(deadline: .milliseconds(300)))
            let session = try #require(try await phone.signIn(with: "oidc").session)
            stack.killBroker()
            #expect(await phone.standing() == .unknown(last: session))
            await #expect(throws: CoatcheckError.unreachable) { try await phone.session() }
            let patient = Coatcheck(broker: stack.broker, client: "ios", storage: phone.storage)
            async let waiting = patient.session()
            async let events = patient.events().first { _ in true }
            try await stack.startBroker()
            #expect(try await waiting.handle == session.handle)
            #expect(try await events != nil)
        }
    }
}
