import Foundation

@testable import Coatcheck

/// The code examples of the documents, so that the compiler checks them.
///
/// A test of the documents looks here for the code blocks of the documents.
private struct Shown {
    let broker: URL
    let storage: any CredentialStorage
    let browser: any SignInBrowser

    func native() async throws {
        let coatcheck = Coatcheck(broker: broker, client: "ios", storage: storage, browser: browser)
        switch try await coatcheck.signIn(with: "oidc", device: "Ana's phone") {
        case .signedIn(let session): show(session)
        case .registration(let registration): form(registration)
        }
    }

    let key: any ProofKey
    let presenceKey: any ProofKey

    func payment(order: Data) async throws {
        let coatcheck = Coatcheck(
            broker: broker, client: "ios", storage: storage, key: key, presenceKey: presenceKey, browser: browser,
            onStepUp: { demand in await confirms(demand) })
        let signIn = try await coatcheck.signIn(with: "cloudentity", stepUp: StepUp(maxAge: 600))
        try await coatcheck.registerPresenceKey()
        let paid = try await coatcheck.relay("bank", "payments", method: "POST", body: order, presence: true)
        show((signIn, paid))
    }

    @Sendable private func confirms(_ demand: StepUp) async -> Bool { demand.maxAge != nil }

    func readme() async throws {
        let coatcheck = Coatcheck(broker: broker, client: "ios", storage: storage, browser: browser)
        let signIn = try await coatcheck.signIn(with: "oidc")
        let orders = try await coatcheck.relay("api", "private/orders")
        for try await event in coatcheck.events() { show(event) }
        try await coatcheck.signOut()
        show((signIn, orders))
    }

    func relays(_ coatcheck: Coatcheck, _ order: Data) async throws {
        let page = try await coatcheck.relay("api", "private/orders", query: "page=2")
        let made = try await coatcheck.relay(
            "api", "private/orders", method: "POST", fields: ["Content-Type": "application/json"], body: order)
        show((page, made))
    }

    /// The members of AppAuth's request that a forward needs.
    struct AppAuthRequest {
        var state: String?
        var codeVerifier: String?
        var nonce: String?
        var scope: String?
        var redirectURL: URL?
    }

    /// The member of AppAuth's response that a forward needs.
    struct AppAuthResponse { var authorizationCode: String? }

    func appAuth(_ coatcheck: Coatcheck, _ request: AppAuthRequest, _ response: AppAuthResponse) async throws {
        let login = AppLogin(
            provider: "cloudentity", client: "ios", state: request.state ?? "", codeVerifier: request.codeVerifier,
            nonce: request.nonce, scope: request.scope, redirectURI: request.redirectURL?.absoluteString)
        let signIn = try await coatcheck.forward(code: response.authorizationCode ?? "", of: login)
        show(signIn)
    }

    /// The member of Sign in with Apple's request that takes the nonce.
    final class AppleRequest { var nonce: String? }

    func idToken(_ coatcheck: Coatcheck, _ request: AppleRequest, _ token: String) async throws {
        let login = NativeLogin(provider: "apple", client: "ios")
        request.nonce = login.hashedNonce
        // … the SDK answers with a credential
        let signIn = try await coatcheck.forward(idToken: token, of: login)
        show(signIn)
    }

    private func show(_ what: Any) {}
    private func form(_ registration: Registration) {}
}
