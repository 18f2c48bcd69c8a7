#if !canImport(SwiftUI)
    import Coatcheck
    import Foundation

    /// Runs the model in a terminal: signs in, calls the API, and signs out.
    ///
    /// With the argument `follow`, it waits for the end of the session instead of the sign-out.
    @main
    struct Terminal {
        static func main() async {
            guard let broker = URL(string: ProcessInfo.processInfo.environment["COATCHECK_URL"] ?? "") else {
                print("COATCHECK_URL has to be the broker's address")
                exit(1)
            }
            let coatcheck = Coatcheck(
                broker: broker, client: "ios", storage: MemoryStorage(), browser: SandboxBrowser())
            let shop = Shop(coatcheck)
            await shop.start()
            report("at the start:", shop.screen, shop)
            await shop.signIn()
            report("after the sign-in:", shop.screen, shop)
            if shop.screen == .signedOut { exit(1) }
            let following = Task { await shop.follow() }
            await shop.loadOrders()
            report("the API answers", shop.orders, shop)
            if !CommandLine.arguments.contains("follow") {
                await shop.signOut()
                report("after the sign-out:", shop.screen, shop)
            }
            await following.value
            report("the session's end:", shop.ended ?? "signed out here", shop)
        }

        /// Prints a state, and exits after a failure.
        @MainActor private static func report(_ words: String, _ state: Any, _ shop: Shop) {
            print(words, state)
            // Flush the output, so that the line reaches a file or a pipe at once.
            fflush(nil)
            guard shop.message.isEmpty else {
                print("failed:", shop.message)
                exit(1)
            }
        }
    }
#endif
