// Not compiled here: the project's tests run on Linux. Whoever builds it for iOS first, please report.
#if canImport(WebKit) && (os(iOS) || os(macOS))
    import Foundation
    import WebKit

    extension Coatcheck {
        /// Hands the session over to a page in a web view of the app's own, and loads it: the cookie is in the web view's store
        /// first.
        @MainActor
        public func handOver(to origin: URL, path: String = "/", in webView: WKWebView) async throws {
            let store = webView.configuration.websiteDataStore.httpCookieStore
            let address = try await handOver(to: origin, path: path) { cookie in
                guard let cookie = cookie.httpCookie else { return }
                await store.setCookie(cookie)
            }
            webView.load(URLRequest(url: address))
        }
    }
#endif
