// swift-format-ignore-file
// WebKit framework: WKWebView (configuration, load), WKWebViewConfiguration (websiteDataStore), WKWebsiteDataStore
// (httpCookieStore), WKHTTPCookieStore (setCookie). On Linux, the requests and cookies are in FoundationNetworking.
import Foundation

#if canImport(FoundationNetworking)
    @_exported import FoundationNetworking
#endif

@MainActor
public class WKWebView: NSObject {
    public var configuration: WKWebViewConfiguration { WKWebViewConfiguration() }

    @discardableResult
    public func load(_ request: URLRequest) -> WKNavigation? { nil }
}

@MainActor
public class WKNavigation: NSObject {}

@MainActor
public class WKWebViewConfiguration: NSObject {
    public var websiteDataStore: WKWebsiteDataStore { WKWebsiteDataStore() }
}

@MainActor
public class WKWebsiteDataStore: NSObject {
    public var httpCookieStore: WKHTTPCookieStore { WKHTTPCookieStore() }
}

@MainActor
public class WKHTTPCookieStore: NSObject {
    public func setCookie(_ cookie: HTTPCookie) async {}
}
