// Not compiled here: the project's tests run on Linux. Whoever builds it for iOS first, please report.
#if canImport(AuthenticationServices) && (os(iOS) || os(macOS))
    import AuthenticationServices
    import Foundation

    #if canImport(UIKit)
        import UIKit
    #endif

    /// The system's sign-in browser, `ASWebAuthenticationSession`.
    public final class SystemBrowser: NSObject, SignInBrowser, ASWebAuthenticationPresentationContextProviding {
        private let scheme: String
        private let remembers: Bool

        /// Creates a browser that comes back by a custom scheme (`com.example.app`).
        ///
        /// With `remembers: false` it shares no cookies with Safari: the user signs in anew each time, as on a shared device.
        public init(scheme: String, remembers: Bool = true) {
            self.scheme = scheme
            self.remembers = remembers
        }

        /// Opens the page over the app.
        @MainActor
        public func open(_ page: URL) async throws -> URL {
            try await withCheckedThrowingContinuation { continuation in
                let session = ASWebAuthenticationSession(url: page, callbackURLScheme: scheme) { url, error in
                    if let url {
                        continuation.resume(returning: url)
                    } else if (error as? ASWebAuthenticationSessionError)?.code == .canceledLogin {
                        continuation.resume(throwing: CoatcheckError.cancelled)
                    } else {
                        continuation.resume(throwing: error ?? CoatcheckError.cancelled)
                    }
                }
                session.presentationContextProvider = self
                session.prefersEphemeralWebBrowserSession = !remembers
                // It keeps itself while it is shown; where it cannot be shown it says so to the closure above.
                session.start()
            }
        }

        /// Returns the window to show it over.
        @MainActor
        public func presentationAnchor(for session: ASWebAuthenticationSession) -> ASPresentationAnchor {
            #if os(iOS)
                let scenes = UIApplication.shared.connectedScenes.compactMap { $0 as? UIWindowScene }
                let scene = scenes.first { $0.activationState == .foregroundActive } ?? scenes.first
                return scene?.keyWindow ?? ASPresentationAnchor()
            #else
                return NSApplication.shared.keyWindow ?? ASPresentationAnchor()
            #endif
        }
    }
#endif
