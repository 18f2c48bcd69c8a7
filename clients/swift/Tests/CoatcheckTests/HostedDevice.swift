import Foundation

@testable import Coatcheck

/// A device whose client uses the broker's hosted callback.
enum HostedDevice {
    static func sign(in stack: Stack, user: String) async throws -> SignIn {
        let phone = Coatcheck(
            broker: stack.broker, client: "hosted", storage: MemoryStorage(), browser: ScriptedBrowser(user: user))
        return try await phone.signIn(with: "oidc")
    }
}
