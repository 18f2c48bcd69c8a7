#if !canImport(SwiftUI)
    import Coatcheck
    import Foundation

    /// Runs the model in a terminal: signs in, calls the API, and signs out.
    @main
    struct Terminal {
        static func main() async {
            guard let broker = URL(string: ProcessInfo.processInfo.environment["COATCHECK_URL"] ?? "") else {
                return print("COATCHECK_URL has to be the broker's address")
            }
            let coatcheck = Coatcheck(
                broker: broker, client: "ios", storage: MemoryStorage(), browser: SandboxBrowser())
            let shop = Shop(coatcheck)
            await shop.start()
            print("at the start:", shop.screen)
            await shop.signIn()
            print("after the sign-in:", shop.screen)
            let following = Task { await shop.follow() }
            await shop.loadOrders()
            print("the API answers", shop.orders)
            await shop.signOut()
            print("after the sign-out:", shop.screen)
            await following.value
            if !shop.message.isEmpty { print("the last failure:", shop.message) }
        }
    }
#endif
