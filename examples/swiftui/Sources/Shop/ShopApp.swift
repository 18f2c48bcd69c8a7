// Not compiled here, because the project's tests run on Linux, which lacks SwiftUI. Please report the result of a build.
#if canImport(SwiftUI)
    import Coatcheck
    import SwiftUI

    @main
    struct ShopApp: App {
        @State private var shop = Shop(
            Coatcheck(
                broker: URL(string: "http://127.0.0.1:8080")!, client: "ios", storage: KeychainStorage(),
                browser: SystemBrowser(scheme: "com.example.app")))

        var body: some Scene {
            WindowGroup { ShopView(shop: shop) }
        }
    }

    struct ShopView: View {
        let shop: Shop
        @Environment(\.scenePhase) private var phase

        var body: some View {
            VStack(spacing: 20) {
                switch shop.screen {
                case .starting:
                    ProgressView()
                case .signedOut:
                    if let reason = shop.ended { Text("Your session has ended (\(reason)).") }
                    Button("Sign in") { Task { await shop.signIn() } }
                case .signedIn(let user):
                    Text("Hello, \(user)")
                    Button("Load my orders") { Task { await shop.loadOrders() } }
                    Text(shop.orders)
                    Button("Sign out") { Task { await shop.signOut() } }
                }
                Text(shop.message).foregroundStyle(.red)
            }
            .padding()
            .task { await shop.start() }
            .task(id: follows) { if follows { await shop.follow() } }
        }

        /// Whether the app is in the foreground with a user.
        private var follows: Bool {
            if case .signedIn = shop.screen { phase == .active } else { false }
        }
    }
#endif
