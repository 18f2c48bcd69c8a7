// swift-format-ignore-file
// AppKit framework: NSApplication (shared, keyWindow), NSWindow.
import Foundation

@MainActor
public class NSApplication: NSObject {
    public class var shared: NSApplication { NSApplication() }
    public var keyWindow: NSWindow? { nil }
}

@MainActor
public class NSWindow: NSObject {}
