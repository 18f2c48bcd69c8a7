// The types of the platform that the client uses. If the platform declares them, the platform's own types are used. The client
// compiles with the DOM's library, with React Native's types, and without both.

export type Platform<Name extends string, Otherwise> = typeof globalThis extends { [name in Name]: { prototype: infer Part } } ? Part : Otherwise
export type AbortSignal = Platform<'AbortSignal', {
    readonly aborted: boolean
    addEventListener(type: 'abort', listener: () => void): void
    removeEventListener(type: 'abort', listener: () => void): void
}>
export type Headers = Platform<'Headers', { get(name: string): string | null; set(name: string, value: string): void }>
export type Response = Platform<'Response', {
    readonly status: number
    readonly ok: boolean
    readonly type: string
    readonly headers: Headers
    text(): Promise<string>
    json(): Promise<any>
    arrayBuffer(): Promise<ArrayBuffer>
}>
export type Fetch = typeof globalThis extends { fetch: infer Own } ? Own : (
    input: string, init?: { method?: string; headers?: any; body?: any; signal?: AbortSignal | null; redirect?: string; credentials?: string }
) => Promise<Response>
export type RequestInit = Fetch extends (input: any, init?: infer Init) => unknown ? NonNullable<Init> : never
export type CryptoKey = Platform<'CryptoKey', object>
export interface CryptoKeyPair { publicKey: CryptoKey; privateKey: CryptoKey }
export interface Stream { getReader(): { read(): Promise<{ done: boolean; value?: Uint8Array }>; cancel(): Promise<void> } }
export interface Asked<Value> { readonly result: Value; readonly error: unknown; onsuccess: unknown; onerror: unknown }
export interface KeyStore { get(name: string): Asked<any>; put(pair: CryptoKeyPair, name: string): Asked<unknown> }
export interface KeyDatabase {
    createObjectStore(name: string): unknown
    transaction(name: string, mode: 'readonly' | 'readwrite'): { objectStore(name: string): KeyStore }
    close(): void
}
export declare const fetch: Fetch
export declare const Headers: { new (init?: any): Headers }
export declare const AbortController: { new (): { readonly signal: AbortSignal; abort(): void } }
export declare const TextDecoder: { new (): { decode(bytes?: Uint8Array, options?: { stream?: boolean }): string } }
export declare const ReadableStream: any
export declare const indexedDB: { open(name: string, version: number): Asked<KeyDatabase> & { onupgradeneeded: unknown } }
export declare const crypto: {
    getRandomValues(bytes: Uint8Array): Uint8Array
    subtle: {
        generateKey(algorithm: object, extractable: boolean, uses: string[]): Promise<CryptoKeyPair>
        exportKey(format: 'jwk', key: CryptoKey): Promise<{ x?: string; y?: string }>
        sign(algorithm: object, key: CryptoKey, bytes: Uint8Array): Promise<ArrayBuffer>
    }
}
export declare function setTimeout(work: () => void, millis: number): unknown
export declare function clearTimeout(timer: unknown): void
