// The keys of a device, and the digests that identify them.
import { Asked, crypto, CryptoKeyPair, indexedDB, KeyStore } from './platform'
import { KeyLost } from './values'
import { fail } from './waiting'

/** The public half of a `ProofKey`. The coordinates of its point are 32 bytes each in base64url, as in its JSON Web Key. */
export interface ProofPublicKey { x: string; y: string }

/**
 * A P-256 key that owns the sessions of this device (docs/apps/bound-sessions.md). A copied token is useless without it.
 *
 * In a browser and Node, use `WebCryptoKey`. React Native needs a module for the Secure Enclave and the Keystore. A key
 * that asks the user before each signature implements the same interface.
 */
export interface ProofKey {
    /**
     * Returns the public key, or null if it is lost. Throws if the key exists but is temporarily unavailable.
     */
    publicKey(): Promise<ProofPublicKey | null>
    /** Makes a key, which replaces a lost one. Only sign-ins and `registerPresenceKey` call it. */
    make(): Promise<ProofPublicKey>
    /**
     * Returns the ES256 signature: r and s, 32 bytes each. Throws a `KeyLost` if the key can never sign again, and a
     * `Cancelled` if the user refused.
     */
    sign(bytes: Uint8Array): Promise<Uint8Array>
}

/** A storage for a pair of keys. Scripts can use the keys but cannot read them. */
export interface KeyPairStorage {
    read(): Promise<CryptoKeyPair | null>
    write(pair: CryptoKeyPair): Promise<void>
}

/** A WebCrypto key that is unreadable for scripts. In a browser it is stored in IndexedDB. */
export class WebCryptoKey implements ProofKey {
    constructor(private readonly storage: KeyPairStorage = indexedKeys('coatcheck')) {}

    async publicKey(): Promise<ProofPublicKey | null> {
        const pair = await this.storage.read()
        return pair && (await exported(pair))
    }

    async make(): Promise<ProofPublicKey> {
        const pair = await crypto.subtle.generateKey({ name: 'ECDSA', namedCurve: 'P-256' }, false, ['sign', 'verify'])
        await this.storage.write(pair)
        return await exported(pair)
    }

    async sign(bytes: Uint8Array): Promise<Uint8Array> {
        const pair = await this.storage.read()
        if (!pair) throw new KeyLost()
        return new Uint8Array(await crypto.subtle.sign({ name: 'ECDSA', hash: 'SHA-256' }, pair.privateKey, bytes))
    }
}

export async function exported(pair: CryptoKeyPair): Promise<ProofPublicKey> {
    const jwk = await crypto.subtle.exportKey('jwk', pair.publicKey)
    return { x: jwk.x ?? '', y: jwk.y ?? '' }
}

/** Returns a storage for a pair of keys in a browser's IndexedDB, under a name. */
export function indexedKeys(name: string): KeyPairStorage {
    function done<Value>(request: Asked<Value>): Promise<Value> {
        return new Promise((resolve, reject) => {
            request.onsuccess = () => resolve(request.result)
            request.onerror = () => reject(request.error)
        })
    }
    async function keys<Value>(mode: 'readonly' | 'readwrite', work: (keys: KeyStore) => Asked<Value>): Promise<Value> {
        const opening = indexedDB.open(name, 1)
        opening.onupgradeneeded = () => opening.result.createObjectStore('keys')
        const database = await done(opening)
        try {
            return await done(work(database.transaction('keys', mode).objectStore('keys')))
        } finally {
            database.close()
        }
    }
    return {
        read: async () => (await keys('readonly', keys => keys.get('proof'))) ?? null,
        write: async pair => { await keys('readwrite', keys => keys.put(pair, 'proof')) },
    }
}

/**
 * An error of a key that is temporarily unavailable. It is thrown unchanged. Unlike a lost response, it causes no repetition.
 */
export class KeyFailure extends Error {
    constructor(readonly thrown: unknown) { super(String(thrown)) }
}

export async function asked<Value>(key: Promise<Value>): Promise<Value> {
    return await key.catch(error => fail(error instanceof KeyLost ? error : new KeyFailure(error)))
}

export function thrownByKey(lost: unknown): never { throw lost instanceof KeyFailure ? lost.thrown : lost }

/** Returns the JSON Web Key with its members sorted by name. RFC 7638 computes the thumbprint from this form. */
export function jwk(key: ProofPublicKey): string { return `{"crv":"P-256","kty":"EC","x":"${key.x}","y":"${key.y}"}` }

export function thumbprint(key: ProofPublicKey): string { return base64url(sha256(bytes(jwk(key)))) }

/** Returns a text that is different each time, for the ID of a proof. It is part of the signed text, and may be public. */
export function unlikeOthers(): string { return [1, 2, 3].map(() => Math.random().toString(36).slice(2)).join('') + Date.now().toString(36) }

/** Returns the SHA-256 of a nonce in hexadecimal digits, as the SDKs of Apple and Google expect it. */
export function hashedNonce(nonce: string): string { return Array.from(sha256(bytes(nonce)), byte => byte.toString(16).padStart(2, '0')).join('') }

export function bytes(text: string): Uint8Array { return Uint8Array.from(text, letter => letter.charCodeAt(0)) }

export function base64url(data: Uint8Array): string {
    const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
    let text = ''
    for (let at = 0; at < data.length; at += 3) {
        const [one, two = 0, three = 0] = [data[at], data[at + 1], data[at + 2]]
        text += letters[one >> 2] + letters[((one & 3) << 4) | (two >> 4)] + letters[((two & 15) << 2) | (three >> 6)] + letters[three & 63]
    }
    return text.slice(0, Math.ceil((data.length * 4) / 3))
}

export const primes = Array.from({ length: 310 }, (_, at) => at + 2).filter(one => !Array.from({ length: 16 }, (_, at) => at + 2).some(by => by < one && one % by === 0))
export const fraction = (root: number) => ((root - Math.floor(root)) * 2 ** 32) | 0

/**
 * Computes SHA-256 (FIPS 180-4) of tokens and keys, because React Native lacks it. Its constants are the roots of the first
 * primes.
 */
export function sha256(message: Uint8Array): Uint8Array {
    const state = primes.slice(0, 8).map(prime => fraction(Math.sqrt(prime)))
    const rounds = primes.slice(0, 64).map(prime => fraction(Math.cbrt(prime)))
    const turned = (word: number, by: number) => (word >>> by) | (word << (32 - by))
    const padded = new DataView(new ArrayBuffer(Math.ceil((message.length + 9) / 64) * 64))
    message.forEach((byte, at) => padded.setUint8(at, byte))
    padded.setUint8(message.length, 0x80)
    padded.setUint32(padded.byteLength - 4, message.length * 8)
    for (let start = 0; start < padded.byteLength; start += 64) {
        const words = Array.from({ length: 16 }, (_, at) => padded.getInt32(start + at * 4))
        for (let at = 16; at < 64; at += 1) {
            const [early, late] = [words[at - 15], words[at - 2]]
            const mixed = (turned(early, 7) ^ turned(early, 18) ^ (early >>> 3)) + (turned(late, 17) ^ turned(late, 19) ^ (late >>> 10))
            words.push((words[at - 16] + words[at - 7] + mixed) | 0)
        }
        let [a, b, c, d, e, f, g, h] = state
        for (let at = 0; at < 64; at += 1) {
            const added = (h + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) + ((e & f) ^ (~e & g)) + rounds[at] + words[at]) | 0
            const first = (turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
            [a, b, c, d, e, f, g, h] = [(added + first) | 0, a, b, c, (d + added) | 0, e, f, g]
        }
        for (const [at, word] of [a, b, c, d, e, f, g, h].entries()) state[at] = (state[at] + word) | 0
    }
    const digest = new DataView(new ArrayBuffer(32))
    state.forEach((word, at) => digest.setInt32(at * 4, word))
    return new Uint8Array(digest.buffer)
}
