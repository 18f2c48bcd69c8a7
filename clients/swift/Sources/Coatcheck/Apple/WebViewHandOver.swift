// Compiled here against stubs of Apple's frameworks, but never run here. Please report the result of your first run.
#if canImport(WebKit) && !os(visionOS)
    import Foundation
    import WebKit

    extension Coatcheck {
        /// Hands the session over to a page in the app's own web view, and loads the page.
        ///
        /// The cookie is set in the web view's store before the page loads.
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
