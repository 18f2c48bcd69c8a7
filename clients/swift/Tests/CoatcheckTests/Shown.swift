import Foundation

@testable import Coatcheck

/// The code that the documents show, compiled: a test of the documents looks for their blocks here.
private struct Shown {
    let broker: URL
    let storage: any CredentialStorage
    let browser: any SignInBrowser

    func native() async throws {
        let coatcheck = Coatcheck(broker: broker, client: "ios", storage: storage, browser: browser)
        switch try await coatcheck.signIn(with: "cloudentity", device: "Ana's phone") {
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
        let signIn = try await coatcheck.signIn(with: "cloudentity")
        let orders = try await coatcheck.relay("shop", "orders")
        for try await event in coatcheck.events() { show(event) }
        try await coatcheck.signOut()
        show((signIn, orders))
    }

    private func show(_ what: Any) {}
    private func form(_ registration: Registration) {}
}
